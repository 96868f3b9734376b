"""Factors of a metric whose job classes no record has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.priorities.usage_factors import CLASS_NAMES, JobClassRow, unmatched_factors
from apps.usage.models import JobClass


def unmatched_class_factors(metric: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Class factors of a metric that match no job of any source."""
    factors = metric["class_factors"]
    if not factors:
        return []
    rows = JobClass.objects.values_list("id", *CLASS_NAMES)
    return unmatched_factors(factors, (JobClassRow(*row) for row in rows.iterator()))


def factor_name(factor: Mapping[str, Any]) -> str:
    """`partition gpu, qos long`."""
    return ", ".join(f"{name} {factor[name]}" for name in CLASS_NAMES if factor[name])
