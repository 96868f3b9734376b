"""Parse the editor's forms into operations and settings; errors name the wrong fields."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.forms import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.pages.changes.drafts.presenters import PERCENT
from apps.policies.operations.apply import Operation
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.web.share_input import read_shares


def read_operation(data: QueryDict) -> Operation:
    """Read the operation that a form describes; raises Invalid with the wrong field."""
    kind = data.get("op", "")
    if kind not in _READERS:
        raise Invalid(_("Choose an action."), fields=[FieldProblem("op", kind[:40])])
    return {"op": kind, **_READERS[kind](data)}


OWN = "own"


def read_typed_shares(text: str, *, mode: str = "", source: Any = OWN) -> Any:
    """Read a number, `inherit`, or a percentage of the parent: "25 %", or any number in the percent mode.

    source: siblings from which a percentage is taken; OWN changes the entry's own shares alone.
    """
    plain = text.strip()
    if plain.endswith("%") or (mode == PERCENT and plain.lower() not in ("inherit", "parent")):
        value = read_shares(plain.removesuffix("%"))
        if value == "parent" or value > 100:
            raise ValidationError(_("Enter a percentage from 0 to 100."), code="percent")
        return {"percent": value} if source == OWN else {"percent": value, "from": source}
    return read_shares(plain)


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
    found: Operation = {"entry": data.get("entry", ""), "parent": data["parent"]}
    if data.get("name", "").strip():
        found["name"] = data.get("name", "").strip()
    return found


def _archive(data: QueryDict) -> Operation:
    return {"entry": data.get("entry", "")}


def _restore(data: QueryDict) -> Operation:
    found: Operation = {"entry": data.get("entry", "")}
    return found | ({"parent": data["parent"]} if data.get("parent") else {})


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
        return read_typed_shares(data.get("shares", ""), **more)
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


_CLASS = ("queue", "partition", "qos")
QUOTE = '"'
_SPECIAL = set(',;"\t')


def typed(settings: PolicySettings) -> dict[str, Any]:
    """Texts of the fields for given settings."""
    factors = [
        _line([*(str(each[name]) for name in _CLASS)], each["factor"]) for each in settings.metric["class_factors"]
    ]
    sites = [_line([each["site"]], each["factor"]) for each in settings.metric["site_factors"]]
    return {
        **{f"weight_{name}": f"{settings.metric['weights'].get(name, 0):.10g}" for name in RESOURCES},
        "class_factors": "\n".join(factors),
        "site_factors": "\n".join(sites),
        "approach_local": settings.approach["local"],
        "approach_global": settings.approach["global"],
        "fallback_factor": f"{settings.fallback_factor:.10g}",
        "tolerance_relative": f"{settings.tolerance['relative'] * 100:.10g}",
        "tolerance_points": f"{settings.tolerance['points']:.10g}",
        **_typed_leaves(settings.tolerance.get("leaves")),
        "review_points": _or_nothing(settings.review["points"]),
        "review_users": _or_nothing(settings.review["users"]),
    }


def _typed_leaves(leaves: Mapping[str, float] | None) -> dict[str, str]:
    if not leaves:
        return {"leaf_relative": "", "leaf_points": ""}
    return {"leaf_relative": f"{leaves['relative'] * 100:.10g}", "leaf_points": f"{leaves['points']:.10g}"}


def _or_nothing(limit: float | None) -> str:
    return "" if limit is None else f"{limit:.10g}"


def read_settings(data: Mapping[str, Any], base: PolicySettings) -> dict[str, Any]:
    """Read the settings that differ from `base`; raises Invalid with all wrong fields."""
    problems: list[FieldProblem] = []

    def number(field: str) -> float:
        try:
            value = read_shares(str(data.get(field, "")))
        except ValidationError as error:
            problems.append(FieldProblem(field, str(error.messages[0])))
            return 0.0
        if value == "parent":
            problems.append(FieldProblem(field, _("Enter a number, such as 20 or 0.5.")))
            return 0.0
        return float(value)

    def limit(field: str) -> float | None:
        """A limit; None, which is no limit, for an empty field."""
        return number(field) if str(data.get(field, "")).strip() else None

    def leaves() -> dict[str, float] | None:
        """Tolerance of leaves; a value that is empty is that of groups, and None if both are empty."""
        relative, points = limit("leaf_relative"), limit("leaf_points")
        given = {"relative": None if relative is None else relative / 100, "points": points}
        return {name: value for name, value in given.items() if value is not None} or None

    weights = {name: number(f"weight_{name}") for name in RESOURCES}
    wanted = {
        "metric": {
            "weights": {name: weight for name, weight in weights.items() if weight},
            "class_factors": _class_factors(str(data.get("class_factors", "")), problems),
            "site_factors": _site_factors(str(data.get("site_factors", "")), problems),
        },
        "approach": {scope: str(data.get(f"approach_{scope}", "")) for scope in ("local", "global")},
        "fallback_factor": number("fallback_factor"),
        "tolerance": {
            "relative": number("tolerance_relative") / 100,
            "points": number("tolerance_points"),
            "leaves": leaves(),
        },
        "review": {name: limit(f"review_{name}") for name in ("points", "users")},
    }
    if problems:
        raise Invalid(problems[0].message, fields=problems)
    checked = PolicySettings.from_json(wanted, base=base).to_json()
    before = base.to_json()
    return {part: checked[part] for part in wanted if checked[part] != before[part]}


def approaches() -> list[tuple[str, str]]:
    labels = {
        "historical": _("finished jobs"),
        "active": _("finished jobs, and running jobs so far"),
        "predictive": _("finished jobs, and running jobs with their full request"),
    }
    return [(name, labels[name]) for name in APPROACHES]


def _class_factors(text: str, problems: list[FieldProblem]) -> list[dict[str, Any]]:
    """Read one factor per line: queue, partition, QOS, factor; an empty name matches any."""
    message = _("Line %(n)s: write queue, partition, QOS and a factor, comma-separated.")
    read = _lines(text, 4, "class_factors", message, problems)
    return [{**dict(zip(_CLASS, cells, strict=True)), "factor": factor} for cells, factor in read]


def _site_factors(text: str, problems: list[FieldProblem]) -> list[dict[str, Any]]:
    """Read one factor per line: site, factor."""
    message = _("Line %(n)s: write a site and its factor, comma-separated.")
    read = _lines(text, 2, "site_factors", message, problems)
    return [{"site": cells[0], "factor": factor} for cells, factor in read]


def _lines(
    text: str, n_cells: int, field: str, message: str, problems: list[FieldProblem]
) -> Iterator[tuple[list[str], float]]:
    """Names and factor of each line that is not empty; adds wrong lines to `problems`."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            # Cells of a line that are separated by commas, semicolons or tabs; only by commas if it contains quotes.
            plain = line if QUOTE in line else line.replace("\t", ",").replace(";", ",")
            cells = [cell.strip() for cell in next(csv.reader([plain], skipinitialspace=True, strict=True))]
            if len(cells) != n_cells:
                raise ValueError
            yield cells[:-1], float(cells[-1])
        except (ValueError, csv.Error):
            problems.append(FieldProblem(field, message % {"n": number}))


def _line(names: list[str], factor: float) -> str:
    """One line of factors; names that contain separators are quoted."""
    quoted = [f'"{name.replace(QUOTE, QUOTE * 2)}"' if _SPECIAL & set(name) else name for name in names]
    return ", ".join([*quoted, f"{factor:.10g}"])
