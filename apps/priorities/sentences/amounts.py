"""Amounts of usage in words: corrections, and what an hour of a resource is called."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import count, number


def adjustment_sentence(resource: str, amount_s: float, at: datetime, note: str) -> str:
    """A correction of usage: "Includes −120 core-hours given back on 18 Nov 2026: node failure."."""
    hours = formats.number_format(round(abs(amount_s) / 3600, 1), 1 if amount_s % 3600 else 0, force_grouping=True)
    words = {
        "amount": f"−{hours}" if amount_s < 0 else f"+{hours}", "unit": unit_of(resource),
        "day": formats.date_format(timezone.localtime(at), "j M Y"),
    }  # fmt: skip
    if amount_s < 0:
        sentence = _("Includes %(amount)s %(unit)s credited on %(day)s") % words
    else:
        sentence = _("Includes %(amount)s %(unit)s charged on %(day)s") % words
    said = f"{sentence}: {note}" if note else sentence
    return said if said.endswith((".", "!", "?")) else f"{said}."


def unit_of(resource: str) -> str:
    """What an hour of a resource is called."""
    units = {
        "cpu_s": _("core-hours"), "gpu_s": _("GPU-hours"), "mem_gb_s": _("GB-hours"), "node_s": _("node-hours"),
        "billing": _("billing-hours"),
    }  # fmt: skip
    return units.get(resource, resource)


def unit_of_metric(weights: Mapping[str, float]) -> str:
    """core-hours, where one resource counts once; else a sum has no unit of its own."""
    counted = {name: weight for name, weight in weights.items() if weight}
    return unit_of(next(iter(counted))) if list(counted.values()) == [1.0] else _("weighted hours")


def job_hours(job_h: float | None) -> str:
    """Core-hours without unit, to three digits below 100."""
    if job_h is None:
        return "–"
    if job_h == 0:
        return number(0, 0)
    if job_h >= 100:
        return count(round(job_h))
    return number(job_h, 1) if job_h >= 1 else f"{job_h:.2g}"
