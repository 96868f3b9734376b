"""The smallest job that shows in the vector of one entry of a snapshot."""

from __future__ import annotations

from math import isfinite

import numpy as np

from apps.engine import vectors
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.smallest_job import jobs_that_show
from apps.engine.errors import BadParameter, PackageFailed
from apps.priorities.metering.usage import HOUR_S
from apps.priorities.operators.records import PathJob
from apps.priorities.operators.words import path_job_sentence
from apps.priorities.sentences.amounts import unit_of_metric
from apps.priorities.serving.answers import ServedSnapshot


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
    return PathJob(anywhere, everywhere, unit, path_job_sentence(anywhere, everywhere, unit))
