"""The smallest job that shows in the vector of one entry of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated

import numpy as np
from django.utils.translation import gettext as _

from apps.engine import vectors
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.smallest_job import jobs_that_show
from apps.engine.errors import BadParameter, PackageFailed
from apps.priorities.metering.usage import HOUR_S
from apps.priorities.sentences.amounts import job_hours, unit_of_metric
from apps.priorities.serving.lookup_index import ServedSnapshot


@dataclass(frozen=True, slots=True)
class PathJob:
    """The smallest job that shows in one entry's vector. A bound: a job of more than this does."""

    any_level_h: Annotated[float | None, "Hours of the metric that change the vector; empty where no job does"]
    every_level_h: Annotated[float | None, "Hours of the metric that show on every level; empty where no job does"]
    unit: Annotated[str, "Unit of the jobs: core-hours, where the metric counts cores alone"]
    sentence: Annotated[str, "The finding in words"]


def path_job(snapshot: ServedSnapshot, entry: int) -> PathJob | None:
    """By the snapshot's own numbers; None for an algorithm that does not round, and for an entry without a component.

    A job on the entry counts in every group on its way; the groups beside them stay as they are.
    """
    if snapshot.algorithm.get("name") != "aequus":
        return None
    prepared, values = prepare(snapshot.tree.engine_tree()), snapshot.values
    path = vectors.lineage(prepared.contest, int(prepared.seat[entry]))
    if not len(path):
        return None
    usage, parent = values.usage[prepared.entry], prepared.contest.parent
    group = np.array([usage[parent == parent[at]].sum() for at in path])
    rows = prepared.entry[path]
    try:
        jobs = jobs_that_show(snapshot.algorithm, values.target[rows], values.actual[rows], group) / HOUR_S
    except (BadParameter, PackageFailed):  # an operator of a package that fails, or is gone
        return None
    unit = unit_of_metric(snapshot.settings.metric["weights"])
    anywhere, everywhere = (float(one) if isfinite(one) else None for one in (jobs.min(), jobs.max()))
    return PathJob(anywhere, everywhere, unit, _sentence(anywhere, everywhere, unit))


def _sentence(anywhere: float | None, everywhere: float | None, unit: str) -> str:
    """From which job on a person's own vector changes, and from which on every level."""
    given = {"any": job_hours(anywhere), "every": job_hours(everywhere), "unit": unit}
    if anywhere is None:
        return _("No job changes your priority now: you have no shares, or no siblings on any level.")
    first = (
        _("Any job changes your priority")
        if anywhere == 0
        else _("A job of more than %(any)s %(unit)s changes your priority")
    )
    if everywhere is None:
        return first % given + "."
    if everywhere == anywhere:
        return first % given + _(", on every level.")
    return first % given + _(", one of more than %(every)s %(unit)s on every level.") % given
