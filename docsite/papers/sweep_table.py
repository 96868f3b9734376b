"""The sweep as a table, and what follows from it: every number of the sentences is computed from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean

from docsite.markdown import table
from docsite.papers import sweep
from docsite.papers.records import SweepRow

# Of section 4.6: they order alike, so that only rounding can tell their results apart.
_EQUIVALENT = ("relative", "relative-2", "sigmoid", "sigmoid-2", "slurm")


def section(rows: Sequence[SweepRow]) -> str:
    by_setting: dict[tuple[str, str, str], dict[str, SweepRow]] = {}
    for row in rows:
        by_setting.setdefault((row["shape"], row["noise"], row["resolution"]), {})[row["operator"]] = row
    cells = [
        (*setting, *(_cell(by_operator[name]) for name in sweep.OPERATORS))
        for setting, by_operator in by_setting.items()
    ]
    head = ("tree", "noise", "resolution", *sweep.OPERATORS)
    conclusions = "\n".join(f"- {sentence}" for sentence in _conclusions(rows, list(by_setting.values())))
    return f"{_setting_text()}\n\n{conclusions}\n\n{table(head, cells)}"


def _setting_text() -> str:
    finest = sweep.RESOLUTIONS["exact"]
    return (
        f"{len(sweep.SHAPES)} trees × {len(sweep.NOISE)} kinds of noise × {len(sweep.RESOLUTIONS)} resolutions × "
        f"{len(sweep.OPERATORS)} operators, each for {sweep.HOURS} h on {len(sweep.SEEDS)} seeds; every user submits "
        f"more than the target. *Exact* is the finest resolution, {finest:,} values. A cell has the distance of all "
        f"shares from their targets from hour 6 on (points, root mean square; mean of the seeds), and the hour from "
        f"which on all shares are within {sweep.CLOSE_POINTS:g} point (median; – for later than the end)."
    )


def _cell(row: SweepRow) -> str:
    hours = "–" if row["to_target_h"] is None else f"{row['to_target_h']:g} h"
    return f"{row['rms_points']:.2f}, {hours}"


def _conclusions(rows: Sequence[SweepRow], settings: Sequence[dict[str, SweepRow]]) -> list[str]:
    """What matters, the largest effect first; then which operators are one."""
    means = {
        "Noise": _means(rows, "noise", sweep.NOISE),
        "The tree": _means(rows, "shape", sweep.SHAPES),
        "The resolution": _means(rows, "resolution", sweep.RESOLUTIONS),
        "The operator": _means(rows, "operator", sweep.OPERATORS),
    }
    spread = {what: max(points.values()) - min(points.values()) for what, points in means.items()}
    coarse = _means([row for row in rows if row["resolution"] == "8"], "operator", sweep.OPERATORS)
    exact = [setting for setting in settings if setting["relative"]["resolution"] == "exact"]
    n_equal = sum(len({_cell(setting[name]) for name in _EQUIVALENT if name != "relative-2"}) == 1 for setting in exact)
    n_all_equal = sum(len({_cell(setting[name]) for name in _EQUIVALENT}) == 1 for setting in exact)
    return [
        *(
            f"{what} moves the mean distance by {spread[what]:.2f} points: {_listed(means[what])}."
            for what in sorted(spread, key=spread.__getitem__, reverse=True)
        ),
        f"At 8 values the operator moves it by {max(coarse.values()) - min(coarse.values()):.2f} points: best is "
        f"{min(coarse, key=coarse.__getitem__)}, worst {max(coarse, key=coarse.__getitem__)}.",
        f"At the finest resolution relative, sigmoid, sigmoid-2 and slurm have the same cell in {n_equal} of "
        f"{len(exact)} settings, and relative-2, too, in {n_all_equal}: they order alike (section 4.6).",
    ]


def _means(rows: Sequence[SweepRow], name: str, values: Iterable[str]) -> dict[str, float]:
    """Mean distance by the value of one column."""
    columns = [(str(dict(row)[name]), row["rms_points"]) for row in rows]
    return {value: mean(points for setting, points in columns if setting == value) for value in values}


def _listed(means: dict[str, float]) -> str:
    return ", ".join(f"{name} {points:.2f}" for name, points in means.items())
