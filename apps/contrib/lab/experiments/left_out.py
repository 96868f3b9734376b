"""Jobs that are not simulated, and why, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from apps.contrib.lab.experiments.records import LeftOut

TEXTS: dict[str, str | Promise] = {
    "unmapped": gettext_lazy("Their accounts are unmapped."),
    "withdrawn": gettext_lazy("Their records were withdrawn."),
    "charges": gettext_lazy("They are charges without a job, such as reservations."),
    "held": gettext_lazy("Two sources report their hours, and those of the other one count."),
    "no_cpus": gettext_lazy("They used no processors."),
    "no_run_time": gettext_lazy("They ended as they began."),
    "no_submit_time": gettext_lazy("They have no submit time."),
    "unknown_length": gettext_lazy("They wait, and their records have no requested time."),
    "too_wide": gettext_lazy("They need more processors than any site has."),
}


def left_out_of(stored: Sequence[Mapping[str, Any]]) -> tuple[LeftOut, ...]:
    """As stored, with their texts in the language of the reader."""
    return tuple(
        LeftOut(each["reason"], str(TEXTS[each["reason"]]), each["n_jobs"], each["core_hours"]) for each in stored
    )
