"""Change sets: the only way a policy changes."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.shapes import UtcTimeField, asked, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem, NotFound
from apps.policies import selectors, services
from apps.policies.changesets.change_sets import conflicts_to_show
from apps.policies.models import ChangeSet
from apps.priorities.change_effects import simulate_change_set

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
}
_TAG = re.compile(r'(?:W/)?"(\d{1,9})"')
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="The change set's ETag")
IF_MATCH_OF_STEP = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The change set's ETag. Not asked for here; where it is sent, only the version that was read goes on.",
)


class ChangeSetSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    policy = serializers.CharField(source="policy.slug")
    state = serializers.ChoiceField(ChangeSet.State.choices)
    version = serializers.IntegerField()
    base_revision = serializers.IntegerField(source="base_number")
    revision = serializers.SerializerMethodField(help_text="What it became, when published")
    reason = serializers.CharField()
    operations = serializers.ListField(child=serializers.DictField())
    effective_at = UtcTimeField(allow_null=True)
    asks = serializers.UUIDField(
        source="asks_entry_uid", allow_null=True, help_text="The entry for which more is asked upward"
    )
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    updated_at = UtcTimeField()

    def get_revision(self, change_set: ChangeSet) -> int | None:
        revision = getattr(change_set, "revision", None)
        return revision.number if revision else None


class EffectSerializer(serializers.Serializer[Any]):
    """Three layers: what the operations say, what follows for targets, what would follow for priorities."""

    base_revision = serializers.IntegerField()
    stated = serializers.ListField(child=serializers.DictField())
    n_stated = serializers.IntegerField()
    effective = serializers.ListField(child=serializers.DictField())
    n_effective = serializers.IntegerField()
    n_outside_view = serializers.IntegerField()
    simulated = serializers.ListField(child=serializers.DictField(), allow_null=True)


class ApprovalSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(source="user_name")
    at = UtcTimeField(source="created_at")


class ConflictSerializer(serializers.Serializer[Any]):
    """As a refusal to publish names it."""

    entry = serializers.CharField(allow_null=True, help_text="uid; null for settings")
    path = serializers.CharField()
    field = serializers.CharField()
    base = serializers.JSONField(allow_null=True)
    mine = serializers.JSONField(allow_null=True)
    theirs = serializers.JSONField(allow_null=True)


class ChangeSetDetailSerializer(ChangeSetSerializer):
    origin = serializers.ChoiceField(ChangeSet.Origin.choices)
    held_for = serializers.CharField(help_text="Why it couldn't be published when it was due")
    decided_by = serializers.CharField(source="decided_name", help_text="Who scheduled it")
    approvals = serializers.SerializerMethodField(help_text="Of the present version: an edit removes them")
    conflicts = serializers.SerializerMethodField(help_text="With what others published since its base: rebase it")
    effect = serializers.SerializerMethodField()

    @extend_schema_field(ApprovalSerializer(many=True))
    def get_approvals(self, change_set: ChangeSet) -> Any:
        return ApprovalSerializer(change_set.approvals.filter(version=change_set.version), many=True).data

    @extend_schema_field(ConflictSerializer(many=True))
    def get_conflicts(self, change_set: ChangeSet) -> list[dict[str, Any]]:
        return [conflict.to_json() for conflict in self.context["conflicts"]]

    @extend_schema_field(EffectSerializer(allow_null=True))
    def get_effect(self, change_set: ChangeSet) -> dict[str, Any] | None:
        effect: dict[str, Any] | None = self.context["effect"]
        return effect


class NewChangeSetSerializer(serializers.Serializer[Any]):
    base_revision = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    reason = serializers.CharField(max_length=4000, required=False, default="", allow_blank=True)
    operations = serializers.ListField(child=serializers.DictField(), max_length=100_000)
    effective_at = UtcTimeField(required=False, default=None, allow_null=True)
    asks = serializers.CharField(
        max_length=10_000,
        required=False,
        default=None,
        allow_null=True,
        help_text="A request from below: the uid or path of an entry that the caller leads. Its operations are "
        "set_shares and set_dates of that entry; proposing it sends it to the managers above the entry.",
    )


class ChangedChangeSetSerializer(serializers.Serializer[Any]):
    base_revision = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    reason = serializers.CharField(max_length=4000, required=False, allow_blank=True)
    operations = serializers.ListField(child=serializers.DictField(), max_length=100_000, required=False)
    effective_at = UtcTimeField(required=False, allow_null=True)


class ChangeSetFilterSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(ChangeSet.State.choices, required=False)


class ChangeSetListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="list_change_sets", parameters=[ChangeSetFilterSerializer], responses=list_of(ChangeSetSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """The newest 200 that I may see."""
        state, actor = asked(ChangeSetFilterSerializer, request).get("state"), actor_of(request)
        found = selectors.list_change_sets(
            policy=selectors.get_policy(slug=policy, actor=actor),
            states=[state] if state else [],
            at=clock.now(),
            actor=actor,
        )
        return listed(ChangeSetSerializer(found, many=True).data)

    @extend_schema(
        operation_id="make_change_set", request=NewChangeSetSerializer, responses={201: ChangeSetDetailSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """A draft with its effect; nothing changes before it is published."""
        given = sent(NewChangeSetSerializer, request)
        change_set = services.make_change_set(policy_slug=policy, **given, at=clock.now(), actor=actor_of(request))
        return answer(request, change_set, 201)


class ChangeSetDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_change_set", responses=ChangeSetDetailSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """With the effect that it has on its base."""
        return answer(request, found_for(request, policy, change_set))

    @extend_schema(
        operation_id="update_change_set",
        parameters=[IF_MATCH],
        request=ChangedChangeSetSerializer,
        responses=ChangeSetDetailSerializer,
    )
    def patch(self, request: Request, policy: str, change_set: int) -> Response:
        """Change a draft; If-Match says of which version."""
        found, version = found_for(request, policy, change_set), version_of(request)
        if version is None:
            message = "Send If-Match with the ETag of the change set that you have read."
            problem = FieldProblem("If-Match", "is missing")
            raise Refusal(message, code="precondition_required", status=428, fields=[problem])
        given = sent(ChangedChangeSetSerializer, request)
        services.update_change_set(id=found.pk, version=version, **given, at=clock.now(), actor=actor_of(request))
        return answer(request, found_for(request, policy, change_set))


def found_for(request: Request, policy: str, change_set: int) -> ChangeSet:
    found = selectors.get_change_set(id=change_set, at=clock.now(), actor=actor_of(request))
    if found.policy.slug != policy:
        raise NotFound("There is no such change set of this policy.")
    return found


def version_of(request: Request) -> int | None:
    """The version that the caller has seen; None without the header, 0 (never one) for a tag that isn't ours."""
    text = request.headers.get("If-Match", "").strip()
    if not text:
        return None
    match = _TAG.fullmatch(text)
    return int(match[1]) if match else 0


def answer(request: Request, change_set: ChangeSet, status: int = 200) -> Response:
    actor = actor_of(request)
    context = {
        "effect": _effect(change_set, actor) if _has_effect(change_set) else None,
        "conflicts": conflicts_to_show(change_set, actor=actor, at=clock.now()),
    }
    response = Response(ChangeSetDetailSerializer(change_set, context=context).data, status=status)
    response["ETag"] = f'"{change_set.version}"'
    return response


def _effect(change_set: ChangeSet, actor: Actor) -> dict[str, Any]:
    """What it says and what follows, against its base; and what would follow for ranks on today's head."""
    layers = services.effect_of(change_set, at=clock.now(), actor=actor)
    is_open = change_set.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {**layers, "simulated": simulate_change_set(change_set, actor=actor) if is_open else None}


def _has_effect(change_set: ChangeSet) -> bool:
    """A first revision has no base, and a whole document says only how much it changed."""
    return change_set.base_number > 0 and all(operation["op"] != "document" for operation in change_set.operations)
