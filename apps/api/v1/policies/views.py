"""Policies, a whole tree as a document, revisions side by side, and the history of one entry."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import (
    UtcTimeField,
    asked,
    decode_cursor,
    encode_cursor,
    list_of,
    listed,
    moment_of,
    reach_json,
    sent,
)
from apps.api.v1.policies.tree import EntrySerializer, entry_of
from apps.api.v1.removal import RemovalReasonSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.mapping.removal import remove_policy
from apps.mapping.rules.rule_set import member_rules
from apps.policies import selectors
from apps.policies.models import ChangeSet, Policy
from apps.policies.selectors import get_policy
from apps.policies.services import make_policy
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.policies.tree.revision_diff import EntryDifference
from apps.priorities.selectors import HistoryLine, diff_revisions, get_entry_history, open_view
from apps.priorities.selectors.history import Correction
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.usage import unmatched_class_factors

# --- Policies ---------------------------------------------------------------------------------------------------------
READ: Scopes = {"GET": frozenset({POLICIES_READ})}
_PAGE = 100


class PolicySerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    visibility = serializers.CharField()
    head_revision = serializers.IntegerField(source="head_number")
    created_at = UtcTimeField()
    archived_at = UtcTimeField(allow_null=True, help_text="null: it is current")


class ClassFactorSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField(required=False, help_text='"" is any')
    partition = serializers.CharField(required=False, help_text='"" is any')
    qos = serializers.CharField(required=False, help_text='"" is any')
    factor = serializers.FloatField(min_value=0, help_text="All rules that fit a job are multiplied; 0 counts nothing")


class SiteFactorSerializer(serializers.Serializer[Any]):
    site = serializers.CharField(help_text="As its records name it; each once")
    factor = serializers.FloatField(min_value=0, help_text="Sites without one count 1")


class MetricSerializer(serializers.Serializer[Any]):
    weights = serializers.DictField(
        child=serializers.FloatField(min_value=0), help_text=f"Of a second of {', '.join(RESOURCES)}"
    )
    class_factors = ClassFactorSerializer(many=True)
    site_factors = SiteFactorSerializer(many=True)


class SettingsSerializer(serializers.Serializer[Any]):
    """As stored in the revision; the registries of algorithms and decay functions describe the parameters."""

    algorithm = serializers.DictField()
    metric = MetricSerializer()
    window = serializers.DictField()
    approach = serializers.DictField(child=serializers.ChoiceField(APPROACHES), help_text="Of `local` and `global`")
    fallback_factor = serializers.FloatField()
    tolerance = serializers.DictField()
    review = serializers.DictField()


class PolicyDetailSerializer(PolicySerializer):
    settings = SettingsSerializer()
    n_entries = serializers.IntegerField()
    published_at = UtcTimeField()
    unmatched_class_factors = ClassFactorSerializer(many=True, help_text="Of the metric: no job so far has the class")


class RevisionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    change_set = serializers.IntegerField(source="change_set_id")
    author = serializers.CharField(source="author_name")
    reason = serializers.CharField()
    published_at = UtcTimeField()
    n_entries = serializers.IntegerField()


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(required=False, max_length=200)


class MomentSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(required=False, max_length=40, help_text="A revision's number, or a time")


class NewPolicySerializer(serializers.Serializer[Any]):
    """Types only: what the values must be, the room of policies says."""

    slug = serializers.CharField(max_length=64, help_text="Its name in addresses: a–z, 0–9 and -")
    name = serializers.CharField(max_length=128, required=False, help_text="As pages show it; the slug if left out")
    description = serializers.CharField(max_length=4_000, required=False, default="", allow_blank=True)
    visibility = serializers.CharField(
        max_length=16, required=False, default=Policy.Visibility.PATH, help_text="`path` or `tree`"
    )
    settings = serializers.DictField(
        required=False, default=dict, help_text="Parts of the settings; the others are the usual ones"
    )


class PolicyListView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({POLICIES_READ, PRIORITIES_READ}),
        "POST": frozenset({POLICIES_WRITE}),
    }

    @extend_schema(operation_id="list_policies", responses=list_of(PolicySerializer))
    def get(self, request: Request) -> Response:
        """Their names are known to everybody who signs in; a token of one policy sees that one."""
        return listed(PolicySerializer(selectors.list_policies(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_policy", request=NewPolicySerializer, responses={201: PolicyDetailSerializer})
    def post(self, request: Request) -> Response:
        """A policy with a root and nothing below it, for administrators. Its tree comes by change sets or documents."""
        given = sent(NewPolicySerializer, request)
        settings = PolicySettings.from_json(given.pop("settings"))
        name = given.pop("name", given["slug"])
        made = make_policy(**given, name=name, settings=settings, at=clock.now(), actor=actor_of(request))
        return Response(policy_json(made), status=201, headers={"Location": f"/api/v1/policies/{made.slug}"})


class PolicyDetailView(APIView):
    scopes: ClassVar[Scopes] = {**READ, "DELETE": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="get_policy", responses=PolicyDetailSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Settings and head revision."""
        return Response(policy_json(selectors.get_policy(slug=policy, actor=actor_of(request), is_past=True)))

    @extend_schema(operation_id="remove_policy", parameters=[RemovalReasonSerializer], responses={204: None})
    def delete(self, request: Request, policy: str) -> Response:
        """Remove a policy that was made by mistake: 409 (`in_use`) lists what rests on it: archive it."""
        given = asked(RemovalReasonSerializer, request)
        remove_policy(slug=policy, reason=given["reason"], at=clock.now(), actor=actor_of(request))
        return Response(status=204)


def policy_json(policy: Policy) -> dict[str, Any]:
    head = selectors.get_revision(policy=policy)
    settings = PolicySettings.from_stored(head.settings)
    more = {
        "settings": settings.to_json(),
        "unmatched_class_factors": unmatched_class_factors(settings.metric),
        "n_entries": head.n_entries,
        "published_at": head.published_at,
    }
    return {**PolicySerializer(policy).data, **more}


class RevisionListView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_revisions", parameters=[CursorSerializer], responses=list_of(RevisionSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """What was published, newest first."""
        cursor = asked(CursorSerializer, request).get("cursor")
        found = selectors.get_policy(slug=policy, actor=actor_of(request), is_past=True)
        before = None if cursor is None else decode_cursor(cursor, int)
        revisions = selectors.list_revisions(policy=found, before=before, limit=_PAGE + 1)
        place = revisions[_PAGE - 1].number if len(revisions) > _PAGE else None
        return listed(RevisionSerializer(revisions[:_PAGE], many=True).data, place)


# --- Revisions --------------------------------------------------------------------------------------------------------
class FieldChangeSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class EntryDifferenceSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(source="uid")
    change = serializers.ChoiceField(["moved", "changed", "added", "removed", "kept"])
    name = serializers.CharField()
    kind = serializers.CharField()
    path = serializers.CharField(allow_blank=True, help_text="Empty when it was removed")
    path_before = serializers.CharField(allow_blank=True, help_text="Empty when it was added")
    changes = serializers.SerializerMethodField()
    n_below = serializers.IntegerField(help_text="Entries that came, or went, together with it")
    target_before = serializers.FloatField(allow_null=True)
    target_after = serializers.FloatField(allow_null=True)
    target_global_before = serializers.FloatField(allow_null=True)
    target_global_after = serializers.FloatField(allow_null=True)

    @extend_schema_field(FieldChangeSerializer(many=True))
    def get_changes(self, row: EntryDifference) -> list[dict[str, Any]]:
        return _changes(row.fields)


class DiffSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    to = serializers.IntegerField()
    settings = FieldChangeSerializer(many=True)
    entries = EntryDifferenceSerializer(many=True)
    n_entries = serializers.IntegerField(help_text="In all pages; what came or went whole counts once")
    next = serializers.CharField(allow_null=True)
    effective = EntryDifferenceSerializer(many=True, help_text="Not edited, but with another target: the furthest 100")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Entries by kind of change")
    corrections = serializer_of(Correction)(many=True)
    n_outside_view = serializers.IntegerField()

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "from": serializers.IntegerField()}  # a word of Python's own


class DiffFilterSerializer(serializers.Serializer[Any]):
    to = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False, help_text="The head, if left out")
    cursor = serializers.CharField(required=False, max_length=200)


class RevisionDiffView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="diff_revisions", parameters=[DiffFilterSerializer], responses=DiffSerializer)
    def get(self, request: Request, policy: str, revision: int) -> Response:
        """From this revision to another one, earlier or later. What you may not see of either is counted."""
        given, actor = asked(DiffFilterSerializer, request), actor_of(request)
        cursor = None if given.get("cursor") is None else str(decode_cursor(given["cursor"], int))
        to = given.get("to") or get_policy(slug=policy, actor=actor, is_past=True).head_number
        found = diff_revisions(
            policy_slug=policy, before=revision, after=to, cursor=cursor, at=clock.now(), actor=actor
        )
        return Response(
            {
                "policy": found.policy.slug,
                "from": found.before.number,
                "to": found.after.number,
                "settings": _changes(found.settings),
                "entries": EntryDifferenceSerializer(found.rows, many=True).data,
                "n_entries": found.n_rows,
                "next": None if found.next_cursor is None else encode_cursor(int(found.next_cursor)),
                "effective": EntryDifferenceSerializer(found.kept, many=True).data,
                "counts": found.counts,
                "corrections": serializer_of(Correction)(found.corrections, many=True).data,
                "n_outside_view": found.n_outside + found.n_kept_outside,
            }
        )


class HistoryLineSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField()
    at = UtcTimeField()
    author = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    change_set = serializers.IntegerField()
    origin = serializers.ChoiceField(ChangeSet.Origin.choices)
    changes = serializers.SerializerMethodField()
    reverted_by = serializers.IntegerField(allow_null=True, help_text="The revision that undid it")

    @extend_schema_field(FieldChangeSerializer(many=True))
    def get_changes(self, line: HistoryLine) -> list[dict[str, Any]]:
        return _changes(line.fields)


class MemberRuleSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(help_text="A source's slug")  # type: ignore[assignment]  # a field of this name
    group = serializers.CharField()
    fqan = serializers.CharField()
    people = serializers.CharField(help_text="A group of sign-in")
    shares = serializers.FloatField()
    kind = serializers.CharField()
    archive_after_days = serializers.IntegerField(allow_null=True)
    reach = serializers.UUIDField(
        allow_null=True, help_text="The entry below which it moves accounts of others; null: the whole policy"
    )
    reach_path = serializers.CharField(allow_null=True)


class EntryDetailSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField(allow_null=True)
    entry = EntrySerializer(allow_null=True, help_text="null when it is archived")
    member_rules = MemberRuleSerializer(many=True, help_text="By which accounts become its children")
    history = HistoryLineSerializer(many=True, help_text="Newest first; of a move the names of both parents")
    next = serializers.CharField(allow_null=True)


class EntryFilterSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(max_length=40, required=False, help_text="A revision's number, or a time")
    cursor = serializers.CharField(required=False, max_length=200, help_text="Of the history")


class EntryDetailView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="get_entry", parameters=[EntryFilterSerializer], responses=EntryDetailSerializer)
    def get(self, request: Request, policy: str, entry: UUID) -> Response:
        """One entry with its numbers, and who changed what of it, when and why; archived ones have their history."""
        given, actor = asked(EntryFilterSerializer, request), actor_of(request)
        at, cursor = moment_of(given.get("at")), given.get("cursor")
        before = None if cursor is None else decode_cursor(cursor, int)
        history = get_entry_history(policy_slug=policy, uid=entry, before=before, actor=actor)
        view = open_view(policy_slug=policy, actor=actor, at=at, is_past=True)
        i = None if history.is_archived and at is None else view.require(entry)
        return Response(
            {
                "policy": view.policy.slug,
                "revision": view.revision,
                "as_of": view.as_of,
                "entry": None if i is None else entry_of(view, i),
                "member_rules": [] if i is None else _member_rules(view, i),
                "history": HistoryLineSerializer(history.lines, many=True).data,
                "next": None if history.next_before is None else encode_cursor(history.next_before),
            }
        )


def _member_rules(view: PolicyView, i: int) -> list[dict[str, Any]]:
    found = member_rules(view.tree, i)
    return [{**rule.to_json(), **reach_json(view.tree, reach)} for rule, reach in found]


def _changes(fields: Any) -> list[dict[str, Any]]:
    return [{"field": field, "before": before, "after": after} for field, before, after in fields]
