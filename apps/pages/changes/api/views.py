"""Change sets, by which policies change: list, make, read and edit."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import NotFound
from apps.policies import selectors, services
from apps.policies.changesets.change_sets import conflicts_to_show
from apps.policies.changesets.conflicts import FieldConflict
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.priorities.change_effects import simulate_change_set
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField, BoundedListField
from apps.web.rest.if_match import if_match_header, require_version
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
}


class ChangeSetSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    policy = serializers.CharField(source="policy.slug")
    state = serializers.ChoiceField(ChangeSet.State.choices)
    version = serializers.IntegerField()
    base_revision = serializers.IntegerField(source="base_number")
    revision = serializers.SerializerMethodField(help_text="Revision that it became; null: not published")
    reason = serializers.CharField()
    operations = serializers.ListField(child=serializers.DictField())
    effective_at = UtcTimeField(allow_null=True)
    asks = serializers.UUIDField(
        source="asks_entry_uid",
        allow_null=True,
        help_text="Request for shares: the entry for which more is requested; null: no request",
    )
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    updated_at = UtcTimeField()

    def get_revision(self, change_set: ChangeSet) -> int | None:
        revision = getattr(change_set, "revision", None)
        return revision.number if revision else None


class EffectSerializer(serializers.Serializer[Any]):
    """Effect in three layers: edited fields, changed targets, and changed priorities."""

    base_revision = serializers.IntegerField()
    stated = serializers.ListField(child=serializers.DictField(), help_text="Fields that the operations change")
    n_stated = serializers.IntegerField()
    effective = serializers.ListField(child=serializers.DictField(), help_text="Entries whose targets change")
    n_effective = serializers.IntegerField()
    n_outside_view = serializers.IntegerField(help_text="Number of changes that the caller may not see")
    simulated = serializers.ListField(
        child=serializers.DictField(),
        allow_null=True,
        help_text="Ranks on the current head; null: published, withdrawn, or not computed",
    )


class ApprovalSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(source="user_name")
    at = UtcTimeField(source="created_at")


ConflictSerializer = record_serializer(
    FieldConflict,
    component="Conflict",
    doc="A field that both this change set and a later revision changed, as in a 409 to publishing.",
    only="entry path field base mine theirs",
    entry=serializers.CharField(allow_null=True, help_text="uid; null for settings"),
)


class ChangeSetDetailSerializer(ChangeSetSerializer):
    origin = serializers.ChoiceField(ChangeSet.Origin.choices)
    held_for = serializers.CharField(help_text='Why it was not published when it was due; "": no problem')
    decided_by = serializers.CharField(source="decided_name", help_text="Person who scheduled it")
    approvals = serializers.SerializerMethodField(help_text="Approvals of the current version; edits remove them")
    conflicts = serializers.SerializerMethodField(
        help_text="Conflicts with revisions published since its base, to be resolved by a rebase"
    )
    effect = serializers.SerializerMethodField()

    @extend_schema_field(ApprovalSerializer(many=True))
    def get_approvals(self, change_set: ChangeSet) -> Any:
        return ApprovalSerializer(change_set.approvals.filter(version=change_set.version), many=True).data

    @extend_schema_field(ConflictSerializer(many=True))
    def get_conflicts(self, change_set: ChangeSet) -> Any:
        return ConflictSerializer(self.context["conflicts"], many=True).data

    @extend_schema_field(EffectSerializer(allow_null=True))
    def get_effect(self, change_set: ChangeSet) -> dict[str, Any] | None:
        effect: dict[str, Any] | None = self.context["effect"]
        return effect


class NewChangeSetSerializer(serializers.Serializer[Any]):
    base_revision = serializers.IntegerField(min_value=1, max_value=bounds.REVISION)
    reason = serializers.CharField(max_length=bounds.REASON, required=False, default="", allow_blank=True)
    operations = BoundedListField(child=BoundedDictField(), max_length=MOST_APPLIED_OPERATIONS)
    effective_at = UtcTimeField(required=False, default=None, allow_null=True)
    asks = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        default=None,
        allow_null=True,
        help_text="Makes it a request for shares: uid or path of an entry that the caller manages. Its operations are "
        "set_shares and set_dates of that entry; proposing it sends it to managers above the entry.",
    )


class ChangedChangeSetSerializer(serializers.Serializer[Any]):
    base_revision = serializers.IntegerField(min_value=1, max_value=bounds.REVISION, required=False)
    reason = serializers.CharField(max_length=bounds.REASON, required=False, allow_blank=True)
    operations = BoundedListField(child=BoundedDictField(), max_length=MOST_APPLIED_OPERATIONS, required=False)
    effective_at = UtcTimeField(required=False, allow_null=True)


class ChangeSetFilterSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(ChangeSet.State.choices, required=False)


class ChangeSetListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        selectors.get_policy(slug=policy, actor=actor_of(request), scope=POLICIES_WRITE)

    @extend_schema(
        operation_id="list_change_sets",
        parameters=[ChangeSetFilterSerializer],
        responses=list_schema(ChangeSetSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """The newest 200 change sets that the caller may see."""
        state, actor = read_query(ChangeSetFilterSerializer, request).get("state"), actor_of(request)
        change_sets = selectors.list_change_sets(
            policy=selectors.get_policy(slug=policy, actor=actor),
            states=[state] if state else [],
            at=clock.now(),
            actor=actor,
        )
        return list_response(ChangeSetSerializer(change_sets, many=True).data)

    @extend_schema(
        operation_id="make_change_set", request=NewChangeSetSerializer, responses={201: ChangeSetDetailSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """Make a draft. The answer contains its effect; the policy changes when it is published."""
        new = NewChangeSet(**read_body(NewChangeSetSerializer, request))
        change_set = services.make_change_set(policy_slug=policy, new=new, at=clock.now(), actor=actor_of(request))
        return answer(request, change_set, 201)


class ChangeSetDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str, change_set: int) -> None:
        found_for(request, policy, change_set)

    @extend_schema(operation_id="get_change_set", responses=ChangeSetDetailSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """One change set with its effect, approvals and conflicts."""
        return answer(request, found_for(request, policy, change_set))

    @extend_schema(
        operation_id="update_change_set",
        parameters=[if_match_header("the change set")],
        request=ChangedChangeSetSerializer,
        responses=ChangeSetDetailSerializer,
    )
    def patch(self, request: Request, policy: str, change_set: int) -> Response:
        """Edit a draft."""
        row, version = found_for(request, policy, change_set), require_version(request, "change set")
        edit = ChangeSetEdit(**read_body(ChangedChangeSetSerializer, request))
        services.update_change_set(id=row.pk, version=version, edit=edit, at=clock.now(), actor=actor_of(request))
        return answer(request, found_for(request, policy, change_set))


def found_for(request: Request, policy: str, change_set: int) -> ChangeSet:
    row = selectors.get_change_set(id=change_set, at=clock.now(), actor=actor_of(request))
    if row.policy.slug != policy:
        raise NotFound("There is no such change set of this policy.")
    return row


def answer(request: Request, change_set: ChangeSet, status: int = 200) -> Response:
    actor = actor_of(request)
    context = {
        "effect": _effect(change_set, actor) if _has_effect(change_set) else None,
        "conflicts": conflicts_to_show(change_set, actor=actor, at=clock.now()),
    }
    response = Response(ChangeSetDetailSerializer(change_set, context=context).data, status=status)
    return with_etag(response, change_set.version)


def _effect(change_set: ChangeSet, actor: Actor) -> dict[str, Any]:
    """Edited fields and changed targets against its base, and the simulated ranks on the current head."""
    layers = services.effect_of(change_set, at=clock.now(), actor=actor)
    is_open = change_set.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {**layers, "simulated": simulate_change_set(change_set, actor=actor) if is_open else None}


def _has_effect(change_set: ChangeSet) -> bool:
    """False for a first revision, which has no base, and for whole documents, which list no single operations."""
    return change_set.base_number > 0 and all(operation["op"] != "document" for operation in change_set.operations)
