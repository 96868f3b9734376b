"""What a day or an hour was, in words, and in the letters that a script reads."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext as _

from apps.priorities.convergence.before_entry import BEFORE_ENTRY

STATES = ("on", "over", "starved", "met", "no_demand", "inferred", BEFORE_ENTRY)
LETTERS = dict(zip((*STATES, ""), "ovsmnib-", strict=True))


def state_words(state: str) -> str:
    """One word or two."""
    words = (
        _("on target"), _("over"), _("under, jobs wait"), _("under, wants no more"), _("no demand"),
        _("under; whether jobs wait is not told"), _("before the entry"),
    )  # fmt: skip
    return dict(zip(STATES, words, strict=True)).get(state, "–")


def readout_words() -> dict[str, str]:
    """What a script says for the letters, and the zone in which it writes hours."""
    words = {letter: state_words(state) for state, letter in LETTERS.items() if state}
    return {"actual": _("actual"), "target": _("target"), "-": "", "zone": settings.TIME_ZONE, **words}
