"""What a day or an hour was, in words."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.priorities.convergence.before_entry import BEFORE_ENTRY

STATES = ("on", "over", "starved", "met", "no_demand", "inferred", BEFORE_ENTRY)


def state_words(state: str) -> str:
    """One word or two."""
    words = (
        _("on target"), _("over"), _("under, jobs wait"), _("under, wants no more"), _("no demand"),
        _("under; whether jobs wait is not told"), _("before the entry"),
    )  # fmt: skip
    return dict(zip(STATES, words, strict=True)).get(state, "–")
