"""The shares that a paper prints beside those of an experiment that is one of its shipped scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.contrib.lab.experiments.records import ExperimentDetail, VariantReport
from apps.contrib.lab.experiments.scenario_base import shipped_as
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.simulation.printed_figures import PRINTED_FIGURES, PrintedFigure, figures_of_scenario
from apps.priorities.sentences.numbers import number, percent

_OF_FIGURES = tuple(dict.fromkeys(figure.scenario for figure in PRINTED_FIGURES))


def printed_of(detail: ExperimentDetail, report: VariantReport) -> Mapping[str, PrintedFigure]:
    """By path of the group. Empty where the variant is no scenario of a figure, because it changes another thing."""
    name = shipped_as(read_spec(detail.spec), report.index, _OF_FIGURES)
    return {figure.group: figure for figure in figures_of_scenario(name)}


def printed_rows(detail: ExperimentDetail, reports: Sequence[VariantReport]) -> list[dict[str, Any]]:
    """A row of each member of each figure: what is printed, what was simulated, and the deviation in points."""
    rows = []
    for report in reports:
        shares = {curve.path: curve.share[-1] for curve in report.curves if curve.share}
        groups = {numbers.path: numbers.entry for numbers in report.entries}
        for figure in printed_of(detail, report).values():
            for path, published in figure.published.items():
                share = shares.get(path)
                off = None if share is None else 100 * share - published
                rows.append(
                    {
                        "figure": figure.number,
                        "name": path.rpartition("/")[2],
                        "variant": report.title,
                        "published": percent(published / 100, 0),
                        "share": percent(share, 2),
                        "off": "" if off is None else number(abs(off), 2),
                        "tolerance": number(figure.tolerance, 1),
                        "is_within": off is not None and abs(off) <= figure.tolerance,
                        "query": f"variant={report.index}&group={groups.get(figure.group, '')}",
                    }
                )
    return sorted(rows, key=lambda row: int(row["figure"]))
