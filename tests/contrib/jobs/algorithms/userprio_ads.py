"""Read what `condor_userprio -negotiator -allusers -long` prints: the last update, and the row of each submitter."""

from __future__ import annotations

import re
from typing import Any

_ATTRIBUTE = re.compile(r"([A-Za-z_]+?)(\d*) = (.*)", re.ASCII)


def read_userprio(text: str) -> tuple[int, dict[str, dict[str, str]]]:
    """LastUpdate, and attributes as printed by name; accounting groups are left out."""
    tables: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = _ATTRIBUTE.fullmatch(line)
        assert match, line
        tables.setdefault(match[2], {})[match[1]] = match[3]
    rows = (row for number, row in tables.items() if number and row.get("IsAccountingGroup") == "false")
    return int(tables[""]["LastUpdate"]), {row["Name"].strip('"'): row for row in rows}


def case_of_step(before: str, after: str, half_life_s: float) -> dict[str, Any]:
    """A case of the priorities of the first text, at the time of the second; a waiting job for each submitter."""
    (began, rows), (ended, _) = read_userprio(before), read_userprio(after)
    submitters = [
        {
            "name": name,
            "effective": float(row["Priority"]),
            "factor": float(row["PriorityFactor"]),
            "cores": float(row["WeightedResourcesUsed"]),
        }
        for name, row in rows.items()
    ]
    return {
        "algorithm": {"name": "htcondor"},
        "half_life_s": half_life_s,
        "passed_s": ended - began,
        "submitters": submitters,
        "jobs": [{"id": f"{at}.0", "submitter": name} for at, name in enumerate(rows)],
    }
