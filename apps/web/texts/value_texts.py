"""Values of settings, shares and dates as texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.web.shell import presentation

_FACTORS = ("class_factors", "site_factors")


def key_text(key: str) -> str:
    """Words for a settings key, without its unit: “half life” for half_life_s."""
    return key.removesuffix("_s").replace("_", " ")


def value_text(value: Any, key: str = "") -> str:
    """A setting, or one side of a conflict, as text; the value of a key that ends in `_s` is a time in seconds."""
    if key.endswith("_s") and isinstance(value, int | float) and not isinstance(value, bool):
        return presentation.duration(value)
    if value is None:
        return _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int | float):
        return presentation.shares(float(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key_text(key)} {value_text(each, key)}" for key, each in value.items()) or _("none")
    if key in _FACTORS and isinstance(value, list | tuple):
        return "; ".join(map(_factor_text, value)) or _("none")
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return between.join(value_text(each) for each in value) or _("none")
    return str(value)


def _factor_text(factors: Mapping[str, Any]) -> str:
    """A factor with the jobs that it applies to, such as “Queue gpu, QOS debug × 0.5”."""
    names = {"site": _("Site"), "queue": _("Queue"), "partition": _("Partition"), "qos": _("QOS")}
    conditions = [f"{word} {factors[name]}" for name, word in names.items() if factors.get(name)]
    words = {"jobs": ", ".join(conditions), "factor": presentation.shares(float(factors["factor"]))}
    return (_("%(jobs)s × %(factor)s") if conditions else _("all × %(factor)s")) % words


def amount(shares: float | None, is_there: bool = True) -> str:
    """An amount such as “35 shares”, or the word for inherited shares."""
    if not is_there:
        return _("none")
    if shares is None:
        return presentation.shares(None)
    return ngettext("%(n)s share", "%(n)s shares", 1 if shares == 1 else 2) % {"n": presentation.shares_short(shares)}


def date_text(dates: Mapping[str, Any] | None) -> str:
    """First day, shares and last day of an entry's dates."""
    if not dates:
        return _("none")
    stated = bool(dates.get("starts_on")), dates.get("shares") is not None, bool(dates.get("ends_on"))
    text = {
        (True, True, True): _("from %(first)s %(shares)s until %(last)s"),
        (True, True, False): _("from %(first)s %(shares)s"),
        (True, False, True): _("from %(first)s until %(last)s"),
        (True, False, False): _("from %(first)s"),
        (False, True, True): _("%(shares)s until %(last)s"),
        (False, True, False): "%(shares)s",
        (False, False, True): _("until %(last)s"),
        (False, False, False): "",
    }[stated]
    return text % {
        "first": presentation.calendar_day(dates["starts_on"]) if stated[0] else "",
        "shares": amount(float(dates["shares"])) if stated[1] else "",
        "last": presentation.calendar_day(dates["ends_on"]) if stated[2] else "",
    }
