"""How many entries of a level are on target: the same count on every page that names one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import ngettext

from apps.web.shell import presentation

OFF_STATES = ("over", "under", "starved", "inferred")
IDLE_STATES = ("idle", "no_demand", "met")


@dataclass(frozen=True, slots=True)
class OnTargetCount:
    """n_on: within their tolerance, with usage or demand. n_idle: without demand. n_all: all that can be compared."""

    n_on: int
    n_idle: int
    n_all: int

    @property
    def n_off(self) -> int:
        return self.n_all - self.n_on - self.n_idle

    @classmethod
    def of(cls, states: Iterable[str]) -> OnTargetCount:
        """Count states of entries or of days; others than these are of entries that can't be compared."""
        known = [state for state in states if state == "on" or state in (*OFF_STATES, *IDLE_STATES)]
        return cls(known.count("on"), sum(state in IDLE_STATES for state in known), len(known))


def idle_text(found: OnTargetCount) -> str:
    """Sentence about entries without demand, whose share goes to the others; empty without any."""
    if not found.n_idle:
        return ""
    text = ngettext(
        "%(n)s has no demand; its share goes to others.",
        "%(n)s have no demand; their shares go to others.",
        found.n_idle,
    )
    return text % {"n": presentation.count(found.n_idle)}
