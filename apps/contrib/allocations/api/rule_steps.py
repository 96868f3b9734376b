"""Steps of rules of allocations: in the year ahead, in the past year as they would have been, and those taken."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.pages.forms import zone
from apps.contrib.allocations.rules.step import Effect, Step
from apps.contrib.allocations.rules.year import (
    MOST_LISTED_STEPS,
    load_ruled,
    past_year,
    steps_taken,
    visible_steps,
    year_ahead,
)
from apps.priorities.selectors.rows import open_view
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView

_EFFECTS = {
    "SharesEffect": "shares",
    "AmountEffect": "amount",
    "CarryEffect": "carried",
    "LimitsEffect": "limits",
    "NotifyEffect": "notice",
}


class RuleStepSerializer(serializers.Serializer[Any]):
    rule = serializers.CharField()
    on = serializers.DateField(help_text="Day of the step, in the site's time zone")
    entry = serializers.UUIDField()
    path = serializers.CharField()
    allocation = serializers.UUIDField(allow_null=True)
    formula = serializers.CharField()
    numbers = serializers.DictField(child=serializers.FloatField(), help_text="Of the formula, by name")
    effects = serializers.ListField(child=serializers.DictField(), help_text="By `kind`; of a taken step in `revision`")
    level = serializers.IntegerField(allow_null=True, help_text="Of thresholds from 1, 0: re-armed; null: another kind")
    revision = serializers.IntegerField(allow_null=True, help_text="That took it; null: none did, or it only notified")


class RuleStepFilterSerializer(serializers.Serializer[Any]):
    when = serializers.ChoiceField(
        ("ahead", "past", "taken"),
        required=False,
        default="ahead",
        help_text="The year ahead if use continues, the past year as the rules would have acted, or the newest taken",
    )


class RuleStepsView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(
        operation_id="list_allocation_rule_steps",
        parameters=[RuleStepFilterSerializer],
        responses=list_schema(RuleStepSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Steps of the rules that the policy's settings declare: at most 1,000, by day, of entries seen by name."""
        when = read_query(RuleStepFilterSerializer, request)["when"]
        view = open_view(policy_slug=policy, actor=actor_of(request))
        view.require(view.tree.uuid(0))
        if when == "taken":
            rows = [_taken(step) for step in steps_taken(view, MOST_LISTED_STEPS)]
        else:
            ruled = load_ruled(view, zone())
            steps = year_ahead(ruled) if when == "ahead" else past_year(ruled)
            rows = [_computed(step) for step in visible_steps(view, steps)[:MOST_LISTED_STEPS]]
        return list_response(RuleStepSerializer(rows, many=True).data)


def _computed(step: Step) -> dict[str, Any]:
    return {
        "rule": step.rule,
        "on": step.on,
        "entry": step.entry_uid,
        "path": step.path,
        "allocation": step.allocation_uid,
        "formula": step.formula,
        "numbers": dict(step.numbers),
        "effects": [_effect(effect) for effect in step.effects],
        "level": step.level,
        "revision": None,
    }


def _effect(effect: Effect) -> dict[str, Any]:
    values = {name: str(value) if isinstance(value, UUID) else value for name, value in asdict(effect).items()}
    return {"kind": _EFFECTS[type(effect).__name__], **values}


def _taken(step: RuleStep) -> dict[str, Any]:
    return {
        "rule": step.rule,
        "on": step.on,
        "entry": step.entry_uid,
        "path": step.facts["path"],
        "allocation": step.allocation_uid,
        "formula": step.facts["formula"],
        "numbers": dict(step.facts["numbers"]),
        "effects": [],
        "level": step.level,
        "revision": step.number,
    }
