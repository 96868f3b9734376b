"""What the text on SAM's priority-based queuing claims."""

from __future__ import annotations

from docsite.papers.claim import Claim, Paper

SAM = Paper(
    "sam",
    "Generic Fair Share Scheduling Using Priority-Based Queuing (SAM)",
    {
        "3.1": Claim("introduction", "Jobs belong to groups with allocations", "`manage.py jobs`, algorithm `sam`"),
        "3.2": Claim(
            "queue",
            "A job goes to the front or the back of a queue",
            "`manage.py jobs`, the gateway of [SAM queue](../sam.md)",
        ),
        "3.3": Claim("queue", "The queue must not age jobs", "note in each answer"),
        "3.4": Claim(
            "rule",
            "Front while the group is below its allocation with this job",
            "`manage.py jobs`",
            "the printed line compares an amount with a fraction; read as fractions, equality goes to the back",
        ),
        "3.5": Claim("rule", "Priority groups come before both, in their order", "`priority_groups`"),
        "3.6": Claim("rule", "Two priorities, p_front and p_back", "`p_front`, `p_back`"),
        "3.7": Claim(
            "rule", "No job runs before one of higher priority", "`manage.py simulate sam-with-priority-group-start`"
        ),
        "3.8": Claim("benefit", "The benefit function is given from outside", "`algorithm.benefit` of a case"),
        "3.9": Claim("benefit", "Weighted usage of several resources", '`benefit: {"cpu_s": 2, "data_gb": 3}`'),
        "3.10": Claim("benefit", "Benefit by the number of running processes", "benefit `processes`"),
        "3.11": Claim("benefit", "Benefit by data", "benefit `data_gb`"),
        "3.12": Claim("service", "The service knows the benefit of each group", "the ledger of [SAM queue](../sam.md)"),
        "3.13": Claim(
            "applications",
            "Physics data taking as a priority group of mass storage",
            "",
            untested="no mass storage system to read; simulated as 3.16",
        ),
        "3.14": Claim("applications", "Groups of a batch system", "the gateway of [SAM queue](../sam.md)"),
        "3.15": Claim("(page)", "The rule is explained for each job", "*Job priorities*"),
        "3.16": Claim(
            "applications",
            "Under load, booked benefit settles at the allocations",
            "`manage.py simulate sam-saturated-equal-load-start`",
        ),
    },
)
