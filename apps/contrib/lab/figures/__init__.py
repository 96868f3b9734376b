"""Registry of the figures about operators and resolution: each draws its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apps.contrib.lab.figures import curves, heatmaps
from apps.contrib.lab.figures.context import FigureContext
from apps.web.figures.figure import Figure

__all__ = ["DRAWN", "FigureContext"]

DRAWN: Mapping[str, Callable[[FigureContext], Figure]] = {
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
