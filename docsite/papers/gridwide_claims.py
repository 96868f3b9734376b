"""What *Design and Evaluation of a Decentralized System for Grid-wide Fairshare Scheduling* claims."""

from __future__ import annotations

from docsite.papers.claim import Claim, Paper

GRIDWIDE = Paper(
    "gridwide",
    "Elmroth, Gardfjäll: Design and Evaluation of a Decentralized System for Grid-wide Fairshare Scheduling",
    {
        "4.1": Claim("section 1", "No coordinator: each site decides by itself", "*Federation*"),
        "4.2": Claim(
            "section 1", "A site keeps control of what it mounts", "limits of a mount, *Pause*, *Freeze*, *Unmount*"
        ),
        "4.3": Claim("section 2", "Organisations publish shares of their capacity", "`manage.py federation publish`"),
        "4.4": Claim("section 2", "Trees of any depth", "64 levels"),
        "4.5": Claim("section 2", "A policy refers to a remote one", "`manage.py federation mount`"),
        "4.6": Claim("section 2", "Sub-policies are delegated to other authorities", "mounts of mounts, *Access*"),
        "4.7": Claim("section 2", "One policy at all sites of an organisation", "version in *Federation*"),
        "4.8": Claim(
            "figure 1", "A site divides itself between organisations and local projects", "local scope of the root"
        ),
        "4.9": Claim("section 2", "Priorities by usage against target", "`manage.py recompute`"),
        "4.10": Claim("section 2", "Local policies count local usage", "scope `local`"),
        "4.11": Claim("section 2", "Global policies count usage of all sites", "scope `global`"),
        "4.12": Claim(
            "figure 1", "Its tree can be written", "YAML and CSV of [policies as code](../policies-as-code.md)"
        ),
        "4.13": Claim("section 2", "Jobs at a group without users have a priority, too", "`rank` and `factor` of REST"),
        "4.14": Claim("section 3", "The root is the total capacity", "tree page"),
        "4.15": Claim("section 3", "A child has a percentage of its parent", "editor, *Shares* or *Percent*"),
        "4.16": Claim("section 3", "Entries have names and types", "`kind`"),
        "4.17": Claim(
            "figure 2",
            "An entry names the source of its usage",
            "`scope` and `sources`",
            "sources of this site and peers; no address of a foreign service per entry",
        ),
        "4.18": Claim("figure 2", "Sources and mounts can be seen", "badges of the tree"),
        "4.19": Claim("section 3", "A collector for each type of source", "[usage formats](../usage.md)"),
        "4.20": Claim(
            "section 3",
            "Metrics other than processor time, and faster resources",
            "`weights`, `class_factors`, `site_factors`",
        ),
        "4.21": Claim("section 3", "Mounts are addresses", "a publication by file or server"),
        "4.22": Claim("section 3", "References are followed periodically", "`every_s` of a mount"),
        "4.23": Claim("figure 3", "Schedulers call out for a factor", "`/api/v1/.../priorities`, `fairshare-callout`"),
        "4.24": Claim("section 3.1", "A job manager asks for hard quotas", "`fairshare-callout quota`"),
        "4.25": Claim("section 3.1", "The scheduler weights the factor", "*Job priorities*, Slurm multifactor"),
        "4.26": Claim("section 3.2", "Scopes are part of the policy", "editor, *Scope…*"),
        "4.27": Claim("section 3.2", "Credentials of a job are mapped to an entry", "mapping rules for DN and FQAN"),
        "4.28": Claim("section 3.2", "Histories by entry", "hourly buckets"),
        "4.29": Claim("section 3.2", "Length, granularity and decay of the history", "setting *Usage window*"),
        "4.30": Claim("section 3.2", "The engine can be replaced", "entry point `fairshare.algorithms`"),
        "4.31": Claim("section 3.2", "The enforcement algorithm can be replaced", "*Algorithm* page"),
        "4.32": Claim("section 3.2", "A job goes down the tree until it is at a leaf", "*My priority*"),
        "4.33": Claim("section 3.2", "Usage is relative to the parent, by the source of the parent", "`scope`"),
        "4.34": Claim("section 3.2", "The tuple of deviations from target", "`priorities` of REST"),
        "4.35": Claim("section 4", "Tuples are ordered lexicographically", "`rank` of REST"),
        "4.36": Claim("section 4", "The tuple as a number with base 200", "`value` of `manage.py compute`"),
        "4.37": Claim("section 4", "Short tuples are padded with 0", "`value` of `manage.py compute`"),
        "4.38": Claim(
            "section 4",
            "Schedulers get one decimal number",
            "`key` and `factor` of REST",
            "whole points misorder some pairs; ranks follow the tuple",
        ),
        "4.39": Claim("section 4", "Subgroups are isolated", "*Algorithm* page"),
        "4.40": Claim("section 4", "Several windows become one metric", "setting *Usage window*"),
        "4.41": Claim(
            "section 5.1", "Six sites of 100 processors, seven submitters", "`manage.py simulate converge-predictive`"
        ),
        "4.42": Claim("section 5.1", "A broker picks sites at random", "`manage.py simulate`"),
        "4.43": Claim(
            "section 5.1",
            "Three approaches to usage: historical, active, predictive",
            "`usage` of a scenario, settings of a policy",
        ),
        "4.44": Claim(
            "figure 5", "The first level is the same in every simulation", "`manage.py simulate converge-historical`"
        ),
        "4.45": Claim("figure 6", "Projects of VO-A converge", "`manage.py simulate converge-historical`"),
        "4.46": Claim("figure 7", "Projects of VO-B converge", "`manage.py simulate converge-historical`"),
        "4.47": Claim("figure 8", "Users of P-B1 converge", "`manage.py simulate converge-historical`"),
        "4.48": Claim("section 5.2", "Deeper entries converge later", "`manage.py simulate converge-historical`"),
        "4.49": Claim(
            "figures 9–10",
            "Predictive is the most accurate, active the next",
            "`manage.py simulate converge-predictive`",
        ),
        "4.50": Claim(
            "section 5.2", "Predictive is good with data five minutes old", "`manage.py simulate refresh-5min`"
        ),
        "4.51": Claim("section 5.2", "Sites publish running jobs with requested time", "running jobs of feeds"),
        "4.52": Claim("section 5.2", "At first jobs start as they come", "`manage.py simulate converge-historical`"),
        "4.53": Claim(
            "figure 11",
            "By local usage half of the sites give half of the share",
            "`manage.py simulate imbalanced-local`",
        ),
        "4.54": Claim(
            "figure 12", "By global usage they reach it", "`manage.py simulate imbalanced-global-predictive`"
        ),
        "4.55": Claim("figure 13", "Idle share goes to siblings in equal points", "`manage.py simulate idle-U-B12`"),
        "4.56": Claim("figure 14", "It stays in the group", "`manage.py simulate idle-U-B12`"),
        "4.57": Claim(
            "figures 5–14",
            "Curves of shares over time",
            "`manage.py simulate converge-historical --every 0.5 --csv`, the figures below",
        ),
        "4.58": Claim("section 5", "Convergence is watched", "*Convergence*, by day and hour"),
        "4.59": Claim("section 5", "Actual and target of mounted entries over time", "*Convergence*"),
        "4.60": Claim("section 5", "Delivered utilisation of the whole grid", "*Federation*, *Grid*"),
        "4.61": Claim("section 3", "A site that is away stops no other", "`stale_action` of a mount"),
        "4.62": Claim("(not in the text)", "Documents are signed, circles refused", "*Federation*"),
        "4.63": Claim("section 2", "An authority edits its own subtree only", "*Access*, draft editor"),
        "4.64": Claim("section 2", "An authority sees what each site gives it", "*Federation*, *Grid*"),
        "4.65": Claim("section 6", "Share trees of Grid Engine", "`ge` format"),
        "4.66": Claim("section 6", "An audit trail", "*Audit*, *History*"),
        "4.67": Claim(
            "section 6",
            "A two-level enforcement point of an organisation",
            "",
            untested="an approach that the paper compares itself with; the product has none",
        ),
        "4.68": Claim(
            "future",
            "A callout for Maui",
            "[recipes](../recipe-others.md)",
            untested="a recipe sets `FSTARGET`; no Maui to run it against",
        ),
        "4.69": Claim("future", "Other priority factors beside fair share", "*Why does my job wait?*"),
        "4.70": Claim("(card)", "Priorities are recomputed on a schedule", "worker and schedule"),
        "4.71": Claim("(card)", "Pages follow new numbers", "tree page"),
        "4.72": Claim("(card)", "Users see and explain their priority", "*My priority*, `fairshare me`"),
    },
)
