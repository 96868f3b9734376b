"""Edits of a change set as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.sentences import numbers, unit_of
from apps.web.shell import field_labels, presentation
from apps.web.texts.value_texts import amount, date_text

NameOfUid = Callable[[Any], str]


def edit_sentence(operation: Mapping[str, Any], name: str, parent: str, name_of_uid: NameOfUid) -> str:
    """One operation as a sentence. name: of its entry before the edit; parent: name of the parent after it."""
    op = operation["op"]
    if op == "set_shares":
        return _shares(name, operation["shares"], name_of_uid)
    if op == "set_policy":
        parts = ", ".join(map(field_labels.setting, operation["settings"]))
        return _("Settings: %(parts)s") % {"parts": parts}
    if op == "document":
        n = int(operation["n_entries"])
        text = ngettext("The whole tree is replaced: %(n)s entry", "The whole tree is replaced: %(n)s entries", n)
        return text % {"n": numbers.count(n)}
    if op == "adjust_usage":
        return _adjusted(name, operation)
    words = {
        "name": name,
        "parent": parent,
        "new": operation.get("name", ""),
        "kind": operation.get("kind", ""),
        "scope": operation.get("scope") or _("as above"),
        "dates": date_text(operation.get("dates")),
    }
    return _text_of(op, operation) % words


def _text_of(op: str, operation: Mapping[str, Any]) -> str:
    return {
        "add": _("%(name)s added to %(parent)s"),
        "rename": _("%(name)s renamed to %(new)s"),
        "move": _("%(name)s moves to %(parent)s"),
        "archive": _("%(name)s is archived"),
        "restore": _("%(name)s restored in %(parent)s"),
        "set_scope": _("%(name)s: the entries below are compared by usage %(scope)s"),
        "lock": _("%(name)s is locked") if operation.get("locked", True) else _("%(name)s is unlocked"),
        "set_kind": _("%(name)s becomes a %(kind)s"),
        "set_dates": "%(name)s: %(dates)s" if operation.get("dates") else _("%(name)s: no dates"),
        "set_members": _("%(name)s: membership rules"),
        "mount": _("%(name)s: maintainer of the entries below"),
        "allocate": _("Allocation of %(name)s"),
    }.get(op, "%(name)s")


def _shares(name: str, shares: Any, name_of_uid: NameOfUid) -> str:
    if not isinstance(shares, Mapping):
        if not isinstance(shares, int | float):
            return _("%(name)s inherits its parent’s shares") % {"name": name}
        return _("%(name)s gets %(shares)s") % {"name": name, "shares": amount(float(shares))}
    return percent_sentence(name, shares, name_of_uid)


def percent_sentence(name: str, shares: Mapping[str, Any], name_of_uid: NameOfUid) -> str:
    """Sentence on an entry that gets a percentage of its parent's shares: from whom, unless it is its own shares."""
    words = {"name": name, "percent": numbers.percent(float(shares["percent"]) / 100, 2)}
    source = shares.get("from")
    if source is None:
        return _("%(name)s gets %(percent)s of its parent") % words
    if source == "reserve":
        return _("%(name)s gets %(percent)s of its parent, from the reserve") % words
    if isinstance(source, str):
        return _("%(name)s gets %(percent)s of its parent, from its siblings in proportion") % words
    givers, n_more = ", ".join(map(name_of_uid, source[:3])), len(source[3:])
    if n_more:
        text = _("%(name)s gets %(percent)s of its parent, from %(givers)s and %(n)s more")
    else:
        text = _("%(name)s gets %(percent)s of its parent, from %(givers)s")
    return text % {**words, "givers": givers, "n": n_more}


def _adjusted(name: str, operation: Mapping[str, Any]) -> str:
    if operation.get("revokes"):
        return _("A usage adjustment of %(name)s is revoked") % {"name": name}
    seconds = float(operation["amount_s"])
    words = {
        "name": name,
        "unit": unit_of(str(operation["resource"])),
        "amount": ("+" if seconds > 0 else numbers.MINUS) + presentation.hours(abs(seconds)),
    }
    return _("Usage of %(name)s is corrected by %(amount)s %(unit)s") % words
