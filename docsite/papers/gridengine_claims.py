"""What the text on Grid Engine 6.2 job priorities claims."""

from __future__ import annotations

from docsite.papers.claim import Claim, Paper

GRID_ENGINE = Paper(
    "gridengine",
    "Grid Engine 6.2 job priorities",
    {
        "1.1": Claim(
            "general",
            "A priority is the weighted sum of urgency, tickets and POSIX priority",
            "*Job priorities*, `manage.py jobs`",
        ),
        "1.2": Claim("general", "Weights after installation: 0.1, 0.01, 1", '`"preset": "6.2"`'),
        "1.3": Claim("general", "A policy without effect is 0.5 for each job", "`manage.py jobs`"),
        "1.4": Claim("general", "Without any policy each job has 0.555", "`manage.py jobs`"),
        "1.5": Claim(
            "urgency",
            "Urgency adds resources, deadline and waiting time",
            "`manage.py jobs`",
            "resources count per slot, as in the program",
        ),
        "1.6": Claim("urgency", "A slot has an urgency of 1,000", '`"preset": "6.2"`'),
        "1.7": Claim("table 1", "Nine jobs by slots", "`manage.py jobs`"),
        "1.8": Claim(
            "table 2",
            "Nine jobs by slots and waiting time",
            "`manage.py jobs`",
            "its listing omits a job; with it all rows agree",
        ),
        "1.9": Claim("urgency", "Running jobs go on waiting", "`manage.py jobs`"),
        "1.10": Claim("urgency", "Normalised between the least and the most urgent job", "`manage.py jobs`"),
        "1.11": Claim("critique", "Running jobs take part in the normalisation", "amendment `exclude_running`"),
        "1.12": Claim("POSIX", "Priorities from −1023 to 1024", "`manage.py jobs`"),
        "1.13": Claim("POSIX", "Table of 32 priorities", '`"preset": "6.2"`'),
        "1.14": Claim("tickets", "Tickets are functional + share + override", "`manage.py jobs`"),
        "1.15": Claim("tickets", "Four categories have a quarter each, three users a third of it", "`manage.py jobs`"),
        "1.16": Claim("steps 1–3", "Running jobs divide the part of their user", "`manage.py jobs`"),
        "1.17": Claim("step 4", "Pending jobs are sorted by submission", "`manage.py jobs`"),
        "1.18": Claim("step 5", "Tickets of the five pending jobs", "`manage.py jobs`"),
        "1.19": Claim("step 6", "Normalised tickets of the five", "`manage.py jobs`", "the text cuts each number"),
        "1.20": Claim(
            "step 6", "Sums of tickets, running and pending", "`totals` of REST", "the text cuts each number"
        ),
        "1.21": Claim("critique", "1,000 pending jobs of one user get 540,051 tickets", "`manage.py jobs`"),
        "1.22": Claim("step 5", "Several categories are sorted again after each job", "`manage.py jobs`"),
        "1.23": Claim("functional", "Automatic users have `auto_user_fshare`, and are deleted", "`manage.py jobs`"),
        "1.24": Claim("future", "Defaults of 0 for a policy without effect", "amendment `default_zero`"),
        "1.25": Claim("future", "Running jobs left out of the normalisation", "amendment `exclude_running`"),
        "1.26": Claim("future", "Urgency as a fraction of the largest", "amendment `linear_urgency`"),
        "1.27": Claim("future", "Step 5 for all jobs alike", "amendment `even_split`"),
        "1.28": Claim(
            "listings",
            "`qstat -pri`, `-urg` and `-ext` explain a priority",
            "*Job priorities*, a pasted listing",
            "the printed listings lack columns; whole ones are read",
        ),
        "1.29": Claim("how-to", "Parameters can be changed to see their effect", "*Job priorities*, calculator"),
        "1.30": Claim("critique", "The sum of tickets is no fixed total", "*Job priorities*, amendments side by side"),
        "1.31": Claim("life cycle", "Example of three users with eight jobs", "*Job priorities*, calculator"),
    },
)
