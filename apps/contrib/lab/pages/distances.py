"""The distance of each group from fair use and from its targets, for every variant, the worst group first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from apps.contrib.lab.experiments.records import EntryNumbers, VariantReport
from apps.contrib.lab.pages.numbers import exact_points_text

MOST_DISTANCE_GROUPS = 20
GroupRow = tuple[EntryNumbers, Mapping[int, EntryNumbers]]


def group_numbers(reports: Sequence[VariantReport]) -> list[GroupRow]:
    """Groups with a distance in the order of the tree: as the first report has them, and by index of each variant."""
    rows: dict[object, tuple[EntryNumbers, dict[int, EntryNumbers]]] = {}
    for report in reports:
        for numbers in report.entries:
            if numbers.is_group and (numbers.fair_points is not None or numbers.rms_points is not None):
                rows.setdefault(numbers.entry, (numbers, {}))[1][report.index] = numbers
    return list(rows.values())


def worst_first(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """By the largest distance in any variant; equal ones in the order of the tree."""
    return sorted(rows, key=lambda row: -max(map(distance, row[1].values()), default=-inf))


def distance(numbers: EntryNumbers) -> float:
    """Points from fair use; from the targets in a result of a release before."""
    points = numbers.fair_points if numbers.fair_points is not None else numbers.rms_points
    return -inf if points is None else points


def distance_table(reports: Sequence[VariantReport], chosen: int) -> dict[str, Any]:
    """What the page shows. chosen: the variant that links keep."""
    rows = worst_first(group_numbers(reports))
    return {
        "titles": [report.title for report in reports],
        "rows": [_row(row, reports, chosen) for row in rows[:MOST_DISTANCE_GROUPS]],
        "n_more": max(0, len(rows) - MOST_DISTANCE_GROUPS),
    }


def _row(row: GroupRow, reports: Sequence[VariantReport], chosen: int) -> dict[str, Any]:
    group, by_variant = row
    known = [distance(by_variant[report.index]) for report in reports if report.index in by_variant]
    cells = []
    for report in reports:
        numbers = by_variant.get(report.index)
        points = -inf if numbers is None else distance(numbers)
        cells.append(
            {
                "title": report.title,
                "fair": exact_points_text(None if numbers is None else numbers.fair_points),
                "rms": exact_points_text(None if numbers is None else numbers.rms_points),
                "is_least": len(known) > 1 and points == min(known) < max(known),
            }
        )
    return {"group": group, "cells": cells, "query": f"variant={chosen}&group={group.entry}"}
