"""The form of a policy's settings: the texts of its fields, and what they say."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any

from django.forms import ValidationError
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.web.share_input import read_shares

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
        limits = {"relative": None if relative is None else relative / 100, "points": points}
        return {name: value for name, value in limits.items() if value is not None} or None

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
