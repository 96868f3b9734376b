"""Messages about convergence: a stable key, values, and a text in the active language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.sentences.numbers import clock_text, count, number

_TEXTS: Mapping[str, Callable[[int], str]] = {
    "all_at_target_or_idle": lambda n: ngettext(
        "On %(on)s it was on target or had no demand.",
        "On %(on)s all %(n)s were on target or had no demand: %(n_on)s and %(n_idle)s.",
        n,
    ),
    "at_target_or_idle": lambda n: ngettext(
        "On %(on)s %(n)s of %(of)s was on target or had no demand: %(n_on)s and %(n_idle)s.",
        "On %(on)s %(n)s of %(of)s were on target or had no demand: %(n_on)s and %(n_idle)s.",
        n,
    ),
    "none_at_target": lambda _n: _("On %(on)s none of %(of)s was on target or without demand."),
    "moves_away": lambda _n: _(
        "%(name)s has been diverging from its target since %(since)s, now %(points)s points %(side)s."
    ),
    "moves_away_alone": lambda _n: _(
        "%(name)s has been diverging from its target since %(since)s, now %(points)s points %(side)s: "
        "none of its siblings has more demand."
    ),
    "more_move_away": lambda n: ngettext("%(n)s more is diverging.", "%(n)s more are diverging.", n),
    "starved": lambda n: ngettext(
        "%(name)s has had jobs waiting below target for %(n)s day.",
        "%(name)s has had jobs waiting below target for %(n)s days.",
        n,
    ),
    "more_starved": lambda n: ngettext("%(n)s more waits below target.", "%(n)s more wait below target.", n),
    "approaching": lambda n: ngettext("%(n)s is off target but converging.", "%(n)s are off target but converging.", n),
    "steady": lambda n: ngettext("%(n)s stays off target.", "%(n)s stay off target.", n),
    "hidden": lambda n: ngettext(
        "%(n)s is not shown: fewer than five active users, or outside your rights.",
        "%(n)s are not shown: fewer than five active users, or outside your rights.",
        n,
    ),
    "local_only": lambda _n: _("Below %(name)s the days from %(since)s on use local usage only: %(reason)s"),
    "local_only_until": lambda _n: _(
        "Below %(name)s the days from %(since)s on use local usage only, until they are recalculated."
    ),
    "local_only_above": lambda _n: _(
        "The days from %(since)s on use local usage only, because peers were unreachable."
    ),
    "nobody_used": lambda _n: _("No usage in this period."),
    "before_entries": lambda _n: _("Created later: there is nothing to compare."),
    "before_some_entries": lambda n: ngettext(
        "%(n)s day is from before some of these entries.", "%(n)s days are from before some of these entries.", n
    ),
    "before_some_entries_hours": lambda n: ngettext(
        "%(n)s hour is from before some of these entries.", "%(n)s hours are from before some of these entries.", n
    ),
    "one_before_entry": lambda _n: _("Created later: there is nothing to compare."),
    "starved_hours": lambda n: ngettext(
        "%(name)s has had jobs waiting below target for %(n)s hour.",
        "%(name)s has had jobs waiting below target for %(n)s hours.",
        n,
    ),
    "no_days": lambda _n: _("There are no days in this period."),
    "one_on": lambda _n: _("%(name)s is on target."),
    "one_idle": lambda _n: _("%(name)s had no more demand: no jobs wait there."),
    "one_steady": lambda _n: _("%(name)s stays %(points)s points %(side)s its target."),
    "one_approaching": lambda _n: _("%(name)s is %(points)s points %(side)s its target but converging."),
    "one_unknown": lambda _n: _("No data of %(name)s on the last day."),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A message. `values` are unformatted names, numbers and days; the value `n` selects the plural form."""

    key: str
    values: Mapping[str, Any]

    @property
    def text(self) -> str:
        shown = {name: _shown(value) for name, value in self.values.items()}
        return str(_TEXTS[self.key](int(self.values.get("n", 1))) % shown)

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """Return the message in the form of the REST interface."""
        plain = {name: value.isoformat() if isinstance(value, date) else value for name, value in self.values.items()}
        return {"key": self.key, "values": plain, "text": self.text}


def build_sentence(key: str, **values: Any) -> Sentence:
    return Sentence(key, values)


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return clock_text(value)
    if isinstance(value, date):
        return formats.date_format(value, "j M Y")
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value, 1)
    return str(value)


def side_label(side: str) -> str:
    return _("over") if side == "over" else _("under")
