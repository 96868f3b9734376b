"""Usage of unmapped accounts as a priority counts it: in the policy's metric, decayed; raw sums are on other pages."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.priorities.selectors import Overview
from apps.web.shell import presentation
from apps.web.texts.decay_phrases import decay_phrase


def unmapped_text(overview: Overview) -> str:
    """Such as 4.6 core-h, half-life 7 d."""
    settings = overview.settings
    amount = presentation.hours(overview.unmapped_core_s)
    words = {"amount": amount, "unit": presentation.hour_unit(settings.metric), "decay": decay_phrase(settings.window)}
    return (_("%(amount)s %(unit)s, %(decay)s") if words["decay"] else _("%(amount)s %(unit)s in the window")) % words
