"""The seven steps of balance: on target, and up to 5, 5 to 12, 12 and more points over or under."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.figures.figure import Swatch

BALANCE = ("$ice-u3", "$ice-u2", "$ice-u1", "$surface-3", "$ice-o1", "$ice-o2", "$ice-o3")
ON_TARGET = 3
_SMALL, _LARGE = 5.0, 12.0  # points: borders between the steps


def balance_step(off_points: float) -> int:
    """The place in `BALANCE` of what is off its target; over is positive."""
    size = 1 if abs(off_points) <= _SMALL else 2 if abs(off_points) < _LARGE else 3
    return ON_TARGET + (size if off_points > 0 else -size)


def balance_legend() -> list[Swatch]:
    """The steps from far under to far over."""
    words = (
        _("12 points and more under"),
        _("5 to 12 under"),
        _("up to 5 under"),
        _("on target"),
        _("up to 5 over"),
        _("5 to 12 over"),
        _("12 points and more over"),
    )
    return [Swatch(color, text) for color, text in zip(BALANCE, words, strict=True)]
