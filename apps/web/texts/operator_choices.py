"""Operators that a policy may use, each with what it does in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from django.utils.translation import gettext as _

from apps.engine.analysis.properties import compare_orders
from apps.engine.operators import Operator, all_operators, get_operator
from apps.web.svg.operator_curve import OperatorCurve, draw_operator


@dataclass(frozen=True, slots=True)
class OperatorChoice:
    """One operator that a policy may use, with a one-sentence description."""

    name: Annotated[str, "Name in settings"]
    label: Annotated[str, "Name on pages"]
    formula: Annotated[str, "F(t, s) of target t and actual s"]
    sentence: Annotated[str, "Who gets idle share, where it is precise, which schedulers order alike"]
    is_proportional: Annotated[bool, "Idle share goes to active siblings in proportion to their shares"]
    is_fixed_at_ends: Annotated[bool, "Zero shares give −1 and zero usage gives 1"]
    orders_like_relative: Annotated[bool, "It orders entries as relative does and differs by rounding only"]
    schedulers: Annotated[str, "Which schedulers compute alike, and by which source"]
    is_current: Annotated[bool, "The policy's own"]

    @property
    def curve(self) -> OperatorCurve | None:
        return draw_operator(self.name)


def list_operator_choices(algorithm: Mapping[str, Any]) -> tuple[OperatorChoice, ...]:
    """List all operators, and the policy's own if it is another power of one of them."""
    current = str(algorithm.get("operator", ""))
    listed = list(all_operators())
    if current and current not in [operator.name for operator in listed]:
        listed.append(get_operator(current))
    return tuple(_choice(operator, current) for operator in listed)


def _choice(operator: Operator, current: str) -> OperatorChoice:
    return OperatorChoice(
        name=operator.name,
        label=operator.label,
        formula=operator.formula,
        sentence=chooser_sentence(operator),
        is_proportional=operator.properties.proportional_redistribution,
        is_fixed_at_ends=operator.properties.boundaries,
        orders_like_relative=_orders_like_relative(operator.name),
        schedulers=operator.schedulers,
        is_current=operator.name == current,
    )


@cache
def _orders_like_relative(name: str) -> bool:
    return compare_orders(get_operator(name), get_operator("relative")).is_full


def chooser_sentence(operator: Operator) -> str:
    """Describe who gets idle share, where the operator is precise, and which schedulers compute alike."""
    idle = (
        _("Idle share goes to active siblings in proportion to their shares.")
        if operator.properties.proportional_redistribution
        else _("Idle share goes to active siblings in equal percentage points.")
        if operator.name == "absolute"
        else _("Idle share does not go to active siblings in proportion to their shares.")
    )
    return " ".join(part for part in (idle, operator.resolves, operator.schedulers) if part)
