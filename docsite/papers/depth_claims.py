"""What Slurm's text on the depth-oblivious factor claims."""

from __future__ import annotations

from docsite.papers.claim import Claim, Paper

DEPTH_OBLIVIOUS = Paper(
    "depth-oblivious",
    "Slurm: Depth-Oblivious Fair-share Factor",
    {
        "F1": Claim("formula", "F = 2^−R, R = R_parent · r_l^k", "algorithm `slurm-depth-oblivious`"),
        "F2": Claim(
            "hierarchy", "On the first level the factor is the original one", "algorithm `slurm-depth-oblivious`"
        ),
        "F3": Claim(
            "hierarchy",
            "A user below an account that used twice its shares: r_l, k and R",
            "`manage.py compute`, columns of REST",
        ),
        "F4": Claim(
            "hierarchy", "What an account used moves the factor of its users", "*My priority*, explanation by level"
        ),
        "F5": Claim("formula", "R, r_l and k of each entry", "`effective_ratio`, `local_ratio`, `k` of REST"),
        "F6": Claim("figure 1", "k by the ratio of the account above", "`analyse exponent`"),
        "F7": Claim("formula", "Usage decays by a half-life", "setting *Usage window*: `slurm`"),
        "F8": Claim("configuration", "Chosen by a flag of Slurm", "`--slurm-config` of `manage.py import_policy`"),
        "F9": Claim("(not in the text)", "No shares give 0, no usage gives 1", "`manage.py compute`"),
        "F10": Claim("introduction", "The original factor multiplies over levels, too", "algorithm `slurm-classic`"),
        "F11": Claim(
            "introduction",
            "Priorities of deep and irregular trees use more of their range",
            "*Algorithm*",
            untested="the text gives no number; *Algorithm* counts rank changes for a tree",
        ),
        "F12": Claim(
            "hierarchy",
            "k is 1 where entry and account are off in the same direction",
            "algorithm `slurm-depth-oblivious`",
        ),
    },
)
