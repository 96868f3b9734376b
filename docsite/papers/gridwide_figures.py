"""Figures 4 to 14 of the grid-wide paper: the shipped scenarios of its evaluation, from the last records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from apps.contrib.lab.scenario_files import SHIPPED
from apps.contrib.lab.simulation.printed_figures import PRINTED_FIGURES, PrintedFigure
from docsite.papers.drawing import Axis, curves
from docsite.papers.figure import Figure
from docsite.papers.records import Records

_TEXTS: Mapping[int, tuple[str, str]] = {  # title of a figure, and what the paper says
    5: ("both organisations", "Both get their shares of 30 and 70 %, in nearly the same way in every simulation."),
    6: ("projects of VO-A, historical", "Shares converge in the long term."),
    7: ("projects of VO-B, historical", "Shares converge in the long term."),
    8: ("users of P-B1, historical", "Users fluctuate more than projects, and converge later."),
    9: ("users of P-B1, active", "Elapsed time of running jobs makes shares fluctuate less."),
    10: (
        "users of P-B1, predictive",
        "Requested time makes shares converge very quickly, with the least fluctuation.",
    ),
    11: (
        "projects that half of the sites can run, local usage",
        "P-A2 and P-A3 get half of their shares, P-A1 the rest.",
    ),
    12: ("the same projects, global usage", "They reach their shares of 30 and 20 % nevertheless."),
    13: (
        "users of P-B1 when U-B12 is idle",
        "Its share is divided evenly: each of the other two gets 15 points more.",
    ),
    14: ("projects of VO-B when U-B12 is idle", "P-B1 keeps its 60 %: nothing of it leaves the project."),
}
SHOWN: Mapping[str, Sequence[str]] = {
    name: list(dict.fromkeys(path for plot in PRINTED_FIGURES if plot.scenario == name for path in plot.published))
    for name in dict.fromkeys(plot.scenario for plot in PRINTED_FIGURES)
}


def figures(stored: Records, step_h: float) -> Iterator[Figure]:
    yield Figure(
        "gridwide",
        "1",
        "a site between two organisations",
        "Half of the site is VO-A's, a quarter VO-B's, a quarter local; VO-A and VO-B divide their shares themselves.",
        "Its tree is *figure 1* of the sweep below.",
        "`docsite/papers/sweep.py`",
    )
    yield Figure(
        "gridwide",
        "2",
        "sources of usage",
        "Entries of the site count local usage, those of organisations the usage of all sites.",
        "Scope and sources of an entry are shown in the tree and on its page.",
        "*Tree*, badge *Global*",
    )
    yield Figure(
        "gridwide",
        "3",
        "components",
        "A policy engine between the scheduler, remote policies and sources of usage.",
        "Look-ups, mounts and feeds; the [glossary](../glossary.md) leads from the paper's words to ours.",
        "[architecture](../architecture.md)",
    )
    yield Figure(
        "gridwide",
        "4",
        "target shares of the evaluation",
        "Two organisations, five projects, three users.",
        _targets_text(),
        "`manage.py simulate converge-predictive`",
    )
    for plot in PRINTED_FIGURES:
        title, said = _TEXTS[plot.number]
        by_path = stored["curves"][plot.scenario]
        yield Figure(
            "gridwide",
            str(plot.number),
            title,
            said,
            _ours(plot, stored),
            f"`manage.py simulate {plot.scenario} --every {step_h:g}`",
            _drawing(plot, {path: by_path[path] for path in plot.published}, step_h),
        )


def _targets_text() -> str:
    """The shares of the shipped scenario; those that the paper's text has are compared by the claims above."""
    scenario = json.loads((SHIPPED / "converge-predictive.json").read_text(encoding="utf-8"))
    texts = []
    groups = [scenario["policy"]]
    while groups:
        group = groups.pop(0)
        groups += [child for child in group["children"] if "children" in child]
        texts.append(", ".join(f"{child['name']} {child['shares']}" for child in group["children"]))
    return f"In percent of the parent: {'; '.join(texts)}."


def _ours(plot: PrintedFigure, stored: Records) -> str:
    last = {path: curve[-1] or 0.0 for path, curve in stored["curves"][plot.scenario].items()}
    shares = ", ".join(f"{_name(path)} {last[path]:.1f} % ({wanted:g})" for path, wanted in plot.published.items())
    worst = max(abs(last[path] - wanted) for path, wanted in plot.published.items())
    rms = stored["rms"][plot.scenario][plot.group]
    return (
        f"At 72 h, the paper's in brackets: {shares}. "
        f"The largest deviation is {worst:.1f} points (tolerance {plot.tolerance:g}); "
        f"from hour 6 on, the distance from the targets is {rms:.2f} points (rms)."
    )


def _drawing(plot: PrintedFigure, by_path: Mapping[str, Sequence[float | None]], step_h: float) -> str:
    points = {
        _name(path): [(step_h * (number + 1), share) for number, share in enumerate(curve)]
        for path, curve in by_path.items()
    }
    hours = Axis(0.0, 72.0, [(hour, f"{hour:g} h") for hour in (0.0, 24.0, 48.0, 72.0)])
    percent = Axis(0.0, 100.0, [(part, f"{part:g} %") for part in (0.0, 25.0, 50.0, 75.0, 100.0)])
    return curves(f"Share of the parent in percent: {_TEXTS[plot.number][0]}", points, hours, percent)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
