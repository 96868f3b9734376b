"""The figures of operators and resolution: records in, one figure out, by the name of the figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apps.figures.figure import Figure
from apps.figures.operators import curves, heatmaps
from apps.figures.operators.shown import Shown

__all__ = ["DRAWN", "Shown"]

DRAWN: Mapping[str, Callable[[Shown], Figure]] = {
    "profiles": curves.profiles,
    "local-density": heatmaps.local_density,
    "input-density": heatmaps.input_density,
    "aggregation": heatmaps.aggregation,
    "steps": heatmaps.steps,
    "job-size": heatmaps.job_size,
    "bits": heatmaps.bits,
    "resolution": heatmaps.resolution,
    "leaf-jobs": curves.leaf_jobs,
    "exponent": curves.exponent,
}
