"""Words for how many entries of a level have no demand."""

from __future__ import annotations

from django.utils.translation import ngettext

from apps.priorities.level_facts import StateCount
from apps.priorities.sentences import numbers


def idle_text(count: StateCount) -> str:
    """Sentence about entries without demand, whose share goes to the others; empty without any."""
    if not count.n_idle:
        return ""
    text = ngettext(
        "%(n)s has no demand; its share goes to others.",
        "%(n)s have no demand; their shares go to others.",
        count.n_idle,
    )
    return text % {"n": numbers.count(count.n_idle)}
