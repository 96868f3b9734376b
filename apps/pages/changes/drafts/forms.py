"""Parse the editor's forms into operations; errors name the wrong fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.forms import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.pages.changes.drafts.presenters import PERCENT
from apps.policies.operations.apply import Operation
from apps.web.changes.share_input import read_shares, read_typed_shares

OWN = "own"


def read_operation(data: QueryDict) -> Operation:
    """Read the operation that a form describes; raises Invalid with the wrong field."""
    kind = data.get("op", "")
    if kind not in _READERS:
        raise Invalid(_("Choose an action."), fields=[FieldProblem("op", kind[:40])])
    return {"op": kind, **_READERS[kind](data)}


def read_amount(text: str, *, mode: str = "", source: Any = OWN) -> Any:
    """Read shares as the operation `set_shares` takes them; in the percent mode, any number is a percentage.

    source: siblings from which a percentage is taken; OWN changes the entry's own shares alone.
    """
    amount = read_typed_shares(text, is_percent=mode == PERCENT)
    return {**amount, "from": source} if isinstance(amount, dict) and source != OWN else amount


def _set_shares(data: QueryDict) -> Operation:
    source: Any = data.get("from", OWN)
    if source == "chosen":
        source = data.getlist("giver")
        if not source:
            raise _wrong("from", "no_giver", _("Choose at least one sibling."))
    return {"entry": data.get("entry", ""), "shares": _amount(data, mode=data.get("mode", ""), source=source)}


def _add(data: QueryDict) -> Operation:
    kind = data.get("kind", "").strip() or "group"
    shares = _amount(data) if data.get("shares", "").strip() else 1
    if isinstance(shares, dict):
        raise _wrong("shares", "percent_of_new", _("Enter shares; percent works once the entry exists."))
    return {"parent": data.get("parent", ""), "name": data.get("name", "").strip(), "kind": kind, "shares": shares}


def _rename(data: QueryDict) -> Operation:
    return {"entry": data.get("entry", ""), "name": data.get("name", "").strip()}


def _move(data: QueryDict) -> Operation:
    if not data.get("parent"):
        raise _wrong("parent", "no_parent", _("Choose the new parent."))
    operation: Operation = {"entry": data.get("entry", ""), "parent": data["parent"]}
    if data.get("name", "").strip():
        operation["name"] = data.get("name", "").strip()
    return operation


def _archive(data: QueryDict) -> Operation:
    return {"entry": data.get("entry", "")}


def _restore(data: QueryDict) -> Operation:
    operation: Operation = {"entry": data.get("entry", "")}
    return operation | ({"parent": data["parent"]} if data.get("parent") else {})


def _lock(data: QueryDict) -> Operation:
    return {"entry": data.get("entry", ""), "locked": data.get("locked") == "yes"}


def _set_scope(data: QueryDict) -> Operation:
    sources = [slug for slug in re.split(r"[\s,;]+", data.get("sources", "").strip()) if slug]
    return {"entry": data.get("entry", ""), "scope": data.get("scope", ""), "sources": sources}


def _set_kind(data: QueryDict) -> Operation:
    return {"entry": data.get("entry", ""), "kind": data.get("kind", "").strip()}


def _set_dates(data: QueryDict) -> Operation:
    starts, ends = data.get("starts_on", "").strip() or None, data.get("ends_on", "").strip() or None
    if not starts and not ends:
        return {"entry": data.get("entry", ""), "dates": None}
    at_end: Any = data.get("at_end", "keep")
    if at_end == "shares":
        at_end = _number(data, "at_end_shares")
    shares = _number(data, "starts_shares") if data.get("starts_shares", "").strip() else None
    dates = {"starts_on": starts, "ends_on": ends, "shares": shares, "at_end": at_end}
    return {"entry": data.get("entry", ""), "dates": dates}


_READERS: dict[str, Callable[[QueryDict], Operation]] = {
    "set_shares": _set_shares,
    "add": _add,
    "rename": _rename,
    "move": _move,
    "archive": _archive,
    "restore": _restore,
    "lock": _lock,
    "set_scope": _set_scope,
    "set_kind": _set_kind,
    "set_dates": _set_dates,
}


def _amount(data: QueryDict, **more: Any) -> Any:
    try:
        return read_amount(data.get("shares", ""), **more)
    except ValidationError as error:
        raise _wrong("shares", error.error_list[0].code, error.messages[0]) from None


def _number(data: QueryDict, field: str) -> float:
    try:
        value = read_shares(data.get(field, ""))
    except ValidationError as error:
        raise _wrong(field, error.error_list[0].code, error.messages[0]) from None
    if value == "parent":
        raise _wrong(field, "number", _("Enter a number, such as 20 or 0.5."))
    return float(value)


def _wrong(field: str, code: str | None, message: str) -> Invalid:
    return Invalid(message, code=code, fields=[FieldProblem(field, message)])
