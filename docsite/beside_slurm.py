"""docs/scale.md: what answers of Slurm's commands and of this service cost, as `bench beside_slurm --record` stored it.

One run of each size is kept.
"""

from __future__ import annotations

import json
import re
from typing import Any

from apps.core.code_paths import REPOSITORY
from docsite.markdown import code, table

FIGURES = REPOSITORY / "docsite/beside_slurm.json"
Run = dict[str, Any]  # users, jobs, on, versions, processor, answers


def runs() -> list[Run]:
    """By size, the smallest first."""
    stored: list[Run] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else []
    return stored


def store(run: Run) -> None:
    """Replace the run of the same size."""
    kept = [each for each in runs() if each["users"] != run["users"]]
    ordered = sorted([*kept, run], key=lambda each: each["users"])
    FIGURES.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page_part() -> str:
    """A sentence for each run, the costs of each question in all of them, and what was asked."""
    sizes = [f"{run['users']:,} users" for run in runs()]
    costs = [
        (answers[0]["question"], *(_cost(each[side]) for each in answers for side in ("slurm", "ours")))
        for answers in zip(*(run["answers"] for run in runs()), strict=True)
    ]
    asked = [
        (each["question"], code(generic(each["slurm"]["asked"])), code(generic(each["ours"]["asked"])))
        for each in runs()[-1]["answers"]
    ]
    head = ("question", *(f"{side}, {size}" for size in sizes for side in ("Slurm", "here")))
    tables = [table(head, costs), table(("question", "asked of Slurm", "asked here"), asked)]
    return "\n\n".join(["\n".join(map(_sentence, runs())), *tables])


def generic(asked: str) -> str:
    """A command or route without the names and days of one run."""
    for pattern, instead in _NAMES:
        asked = pattern.sub(instead, asked)
    return asked


_NAMES = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r" -P -t Seconds| -P| start=\S+| end=\S+", ""),
        (r"&(from|to)=[^&]*", ""),
        (r"/d\d+/g\d+", "GROUP"),
        (r"\bg\d+\b", "ACCOUNT"),
        (r"\bu\d+-\d+\b", "USER"),
        (r"(?<=-j )\d+|(?<=job=)\d+", "JOB"),
        (r"policies/[\w-]+/", "…/"),
        (r"(?<=schedulers/)[\w-]+", "{scheduler}"),
    )
)


def _sentence(run: Run) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"- {run['users']:,} users with {run['jobs']:,} jobs: {run['on']}, {versions}, {run['processor']}."


def _cost(cost: dict[str, Any]) -> str:
    spent = f"{cost['cpu_s']:.2g} s" if cost["cpu_s"] < 1 else f"{cost['cpu_s']:,.1f} s"
    return f"cut after {spent}, {cost['n_rows']:,} rows" if cost["is_cut"] else spent
