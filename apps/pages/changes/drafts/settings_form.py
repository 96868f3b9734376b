"""The form of a policy's settings: the texts of its fields, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.forms import ValidationError
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.web.changes.factor_lines import (
    KIND_WEIGHTS,
    class_factor_lines,
    kind_weight_lines,
    read_class_factors,
    read_kind_weights,
    read_site_factors,
    site_factor_lines,
)
from apps.web.changes.share_input import read_shares


def typed(settings: PolicySettings) -> dict[str, Any]:
    """Texts of the fields for given settings."""
    return {
        **{f"weight_{name}": f"{settings.metric['weights'].get(name, 0):.10g}" for name in RESOURCES},
        KIND_WEIGHTS: kind_weight_lines(settings.metric["weights"]),
        "class_factors": class_factor_lines(settings.metric["class_factors"]),
        "site_factors": site_factor_lines(settings.metric["site_factors"]),
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
            "weights": {
                **{name: weight for name, weight in weights.items() if weight},
                **read_kind_weights(str(data.get(KIND_WEIGHTS, "")), problems),
            },
            "class_factors": read_class_factors(str(data.get("class_factors", "")), problems),
            "site_factors": read_site_factors(str(data.get("site_factors", "")), problems),
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
    checked = PolicySettings.from_json(wanted, base=base).parts()
    before = base.parts()
    return {part: checked[part] for part in wanted if checked[part] != before[part]}


def approaches() -> list[tuple[str, str]]:
    labels = {
        "historical": _("finished jobs"),
        "active": _("finished jobs, and running jobs so far"),
        "predictive": _("finished jobs, and running jobs with their full request"),
    }
    return [(name, labels[name]) for name in APPROACHES]
