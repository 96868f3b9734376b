"""What *Priority Operators for Fairshare Scheduling* claims."""

from __future__ import annotations

from docsite.papers.claim import Claim, Paper

OPERATORS = Paper(
    "operators",
    "Rodrigo, Östberg, Elmroth: Priority Operators for Fairshare Scheduling",
    {
        "O1": Claim(
            "eq. 1–3", "Priorities are in −1..1, 0 on target only, and monotone", "[extending](../extending.md)"
        ),
        "O2": Claim("eq. 5", "Absolute is target − actual", "operator `absolute`"),
        "O3": Claim("eq. 6", "Relative is the gap as a fraction of the larger of both", "operator `relative`"),
        "O4": Claim("eq. 7", "Relative-n raises the gap to the power n", "operators `relative-2` … `relative-1000`"),
        "O5": Claim("eq. 8", "Sigmoid is the sine of the gap", "operator `sigmoid`"),
        "O6": Claim("eq. 9", "Sigmoid-n is the n-th root of the sine", "operators `sigmoid-2` … `sigmoid-1000`"),
        "O7": Claim("eq. 10", "Combined mixes absolute and relative-2 by k", "operator `combined`, setting `k`"),
        "O8": Claim("eq. 11–12", "Slurm's exponential, stretched to −1..1", "operator `slurm`"),
        "O9": Claim(
            "table 1", "Priorities without target and without usage, for seven operators", "`manage.py compute`"
        ),
        "O10": Claim("eq. 2", "Neither target nor usage is on target: 0", "`manage.py compute`"),
        "O11": Claim("eq. 15, 17", "Equal priorities have one component at every resolution", "`manage.py compute`"),
        "V1": Claim("figures 2–3", "A tree of shares gives each leaf a vector of priorities", "`vector` of REST"),
        "V2": Claim("figure 4", "Components 0..r−1, written as one string of fixed width", "`key` of REST"),
        "V3": Claim("figure 5", "Too low a resolution reverses an order", "`analyse resolution`"),
        "V4": Claim("section 2.2", "Vectors compare level by level, from the top", "`rank` of REST"),
        "V5": Claim("section 2.2", "Short vectors are padded with the balance", "`key` of REST"),
        "V6": Claim("section 2.2", "A vector is projected to one number", "setting `factor_from` of Aequus"),
        "D1": Claim(
            "figures 7–8", "Input density: how fine an operator is, over all inputs", "`analyse input-density`"
        ),
        "D2": Claim("figures 9–13", "Local density: the same at one target", "`analyse profiles`, `local-density`"),
        "D3": Claim("section 5.2", "Relative is equally fine everywhere", "`analyse input-density`"),
        "D4": Claim("section 5.2", "Absolute is finest at the ends, sigmoid-2 at balance", "`analyse input-density`"),
        "D5": Claim(
            "section 5.2",
            "Combined and Slurm are not symmetric around balance",
            "`docs/appendices/analysis.md`",
            "combined is, by its own eq. 10",
        ),
        "D6": Claim(
            "section 5.3",
            "Sigmoid-2 is finest around balance, absolute is level, at all resolutions",
            "`manage.py analyse local-density`",
            "tried at 3, 6, 9 and 12 bits and nine targets; figures have up to 8 bits",
        ),
        "J1": Claim("eq. 23–25", "The job that raises an actual share by a step", "`manage.py analyse job-size`"),
        "J2": Claim(
            "figure 17",
            "Bits that make a job of 2,000 h visible",
            "`analyse bits`",
            "the 21 within one bit count states that no entry can have",
        ),
        "J3": Claim("figures 14–16", "Smallest visible job by bits, operator and region", "`analyse job-size`"),
        "J4": Claim(
            "section 5.4",
            "Order of the operators by that job",
            "`docs/appendices/analysis.md`",
            "one pair of neighbours at balance, one over target",
        ),
        "J5": Claim(
            "section 5.4",
            "The order of the operators is one at all resolutions",
            "`manage.py analyse job-size --reading typical`",
            "at 3 to 5 bits some neighbours change places",
        ),
        "A1": Claim(
            "section 3", "New operators are checked against the definition", "entry point `fairshare.operators`"
        ),
        "A2": Claim(
            "eq. 15", "Virtual targets: shares of idle siblings in proportion", "`docs/appendices/analysis.md`"
        ),
        "A3": Claim("section 7", "Future work: all operators simulated, with noise and other trees", "the sweep below"),
        "A4": Claim(
            "eq. 15", "Usage settles at the virtual targets, or in equal points", "`manage.py simulate idle-U-B12`"
        ),
        "A5": Claim("section 7", "Future work: resolutions simulated", "the sweep below"),
        "A6": Claim("eq. 16", "Relative, its power, both sigmoids and Slurm order alike", "*Algorithm*"),
        "A7": Claim("section 5", "What a resolution does to the order of a real tree", "`analyse resolution`"),
        "A8": Claim("figure 5", "Ranks that rounding changes, apart from those of the operator", "*Algorithm*"),
        "A9": Claim(
            "eq. 2",
            "Only entries on target have 0, for any n",
            "`manage.py compute`",
            "n is at most 1,000: doubles can't tell more",
        ),
        "A10": Claim("eq. 10", "Combined with k = 0 is relative-2", "*Algorithm* page"),
        "A12": Claim("section 7", "Which operator suits which region", "`analyse job-size`, its sentence"),
        "A13": Claim("section 7", "The least resolution for this tree and this job", "`analyse POLICY`, its check"),
        "Z1": Claim("eq. 4", "An entry without shares comes last", "setting `zero_shares: last`"),
        "Z3": Claim("eq. 17, 20", "Effective priorities: what remains after rounding", "`manage.py analyse steps`"),
        "Z4": Claim("eq. 22", "The smallest job that shows, for one entry", "`analyse leaf-jobs`"),
        "Z5": Claim("section 4.3", "Usage of other groups changes nothing in a group", "`manage.py compute`"),
        "Z6": Claim(
            "section 4.5",
            "Time and memory of the operators (left open)",
            "",
            untested="the paper leaves it open; [scale](../scale.md) has the engine's",
        ),
        "Z10": Claim(
            "section 6",
            "LSF is absolute, Maui a version of relative",
            "*Algorithm*",
            "the manuals say the opposite; both are shown",
        ),
        "Z11": Claim("section 7", "Operators steer Slurm", "the agent of `docs/schedulers.md`"),
    },
)
