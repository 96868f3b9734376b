"""Policies, their revisions, differences between revisions, and the history of one entry."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, Scopes, actor_of
from apps.api.inputs import (
    BoundedDictField,
    CursorSerializer,
    encode_cursor,
    moment_of,
    read_body,
    read_cursor,
    read_query,
)
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import UtcTimeField, first_page, list_response, list_schema, reach_json
from apps.api.v1.policies.tree import EntrySerializer, entry_of
from apps.api.v1.removal import RemovalReasonSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.mapping.permissions import load_visibility
from apps.mapping.removal import remove_policy
from apps.mapping.rules.rule_set import member_rules
from apps.policies import selectors
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.records import PolicyDetails
from apps.policies.selectors import get_policy
from apps.policies.services import make_policy
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.policies.tree.revision_diff import EntryDifference
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors import HistoryLine, diff_revisions, get_entry_history, open_view
from apps.priorities.selectors.class_factors import unmatched_class_factors
from apps.priorities.selectors.revision_differences import Correction
from apps.priorities.selectors.rows import PolicyView

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
    archived_at = UtcTimeField(allow_null=True, help_text="null: not archived")


class ClassFactorSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField(required=False, help_text='"" is any')
    partition = serializers.CharField(required=False, help_text='"" is any')
    qos = serializers.CharField(required=False, help_text='"" is any')
    factor = serializers.FloatField(
        min_value=0, help_text="Factors of all matching rules are multiplied; 0: no usage counts"
    )


class SiteFactorSerializer(serializers.Serializer[Any]):
    site = serializers.CharField(help_text="Site as named in its usage records; each at most once")
    factor = serializers.FloatField(min_value=0, help_text="Default for other sites: 1")


class MetricSerializer(serializers.Serializer[Any]):
    weights = serializers.DictField(
        child=serializers.FloatField(min_value=0), help_text=f"Weight of one second of {', '.join(RESOURCES)}"
    )
    class_factors = ClassFactorSerializer(many=True)
    site_factors = SiteFactorSerializer(many=True)


class SettingsSerializer(serializers.Serializer[Any]):
    """Settings of the revision. GET /algorithms and /decay-functions describe the parameters."""

    algorithm = serializers.DictField()
    metric = MetricSerializer()
    window = serializers.DictField()
    approach = serializers.DictField(
        child=serializers.ChoiceField(APPROACHES), help_text="Approach to running jobs for `local` and `global` usage"
    )
    fallback_factor = serializers.FloatField()
    tolerance = serializers.DictField()
    review = serializers.DictField()


class PolicyDetailSerializer(PolicySerializer):
    settings = SettingsSerializer()
    n_entries = serializers.IntegerField()
    published_at = UtcTimeField()
    unmatched_class_factors = ClassFactorSerializer(
        many=True, help_text="Class factors of the metric that match no job so far"
    )


class RevisionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    change_set = serializers.IntegerField(source="change_set_id")
    author = serializers.CharField(source="author_name", help_text="Empty outside the caller's view")
    reason = serializers.CharField(help_text="Empty outside the caller's view")
    published_at = UtcTimeField()
    n_entries = serializers.SerializerMethodField(help_text="null outside the caller's view")
    is_outside_view = serializers.BooleanField(help_text="It changed only what the caller may not see")

    def get_n_entries(self, revision: Revision) -> int | None:
        return None if revision.is_outside_view else revision.n_entries


class MomentFilterSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(required=False, max_length=40, help_text="Revision number or instant")


class NewPolicySerializer(serializers.Serializer[Any]):
    """Checks types; `apps.policies` checks the values."""

    slug = serializers.CharField(max_length=64, help_text="Name in addresses: a–z, 0–9 and -")
    name = serializers.CharField(max_length=128, required=False, help_text="Name on pages; default: the slug")
    description = serializers.CharField(max_length=4_000, required=False, default="", allow_blank=True)
    visibility = serializers.CharField(
        max_length=16, required=False, default=Policy.Visibility.PATH, help_text="`path` or `tree`"
    )
    settings = BoundedDictField(required=False, default=dict, help_text="Settings that differ from the defaults")


class PolicyListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({POLICIES_READ, PRIORITIES_READ}),
        "POST": frozenset({POLICIES_WRITE}),
    }

    @extend_schema(operation_id="list_policies", responses=list_schema(PolicySerializer))
    def get(self, request: Request) -> Response:
        """Policies of this site. Everyone who signs in sees their names; a token of one policy sees that one only."""
        return list_response(PolicySerializer(selectors.list_policies(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_policy", request=NewPolicySerializer, responses={201: PolicyDetailSerializer})
    def post(self, request: Request) -> Response:
        """Make a policy with an empty tree, which change sets or documents then fill. For administrators."""
        given = read_body(NewPolicySerializer, request)
        settings = PolicySettings.from_json(given.pop("settings"))
        name = given.pop("name", given["slug"])
        slug, details = given.pop("slug"), PolicyDetails(**given)
        made = make_policy(
            slug=slug, name=name, settings=settings, details=details, at=clock.now(), actor=actor_of(request)
        )
        return Response(policy_json(made), status=201, headers={"Location": f"/api/v1/policies/{made.slug}"})


class PolicyDetailView(APIView):
    scopes: ClassVar[Scopes] = {**READ, "DELETE": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="get_policy", responses=PolicyDetailSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Settings and head revision of a policy."""
        return Response(policy_json(selectors.get_policy(slug=policy, actor=actor_of(request), is_past=True)))

    @extend_schema(operation_id="remove_policy", parameters=[RemovalReasonSerializer], responses={204: None})
    def delete(self, request: Request, policy: str) -> Response:
        """Remove a policy without data. 409 (`in_use`) lists dependent data; archive the policy in that case."""
        given = read_query(RemovalReasonSerializer, request)
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

    @extend_schema(
        operation_id="list_revisions", parameters=[CursorSerializer], responses=list_schema(RevisionSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Published revisions, newest first. Of those that changed only what the caller may not see, number and instant
        alone.
        """
        given = read_query(CursorSerializer, request)
        found = selectors.get_policy(slug=policy, actor=actor_of(request), is_past=True)
        sees = load_visibility(policy=found, tree=load_tree(found), at=clock.now(), actor=actor_of(request))
        revisions = selectors.list_revisions(policy=found, sees=sees, before=read_cursor(given), limit=_PAGE + 1)
        page, last = first_page(revisions, _PAGE, lambda revision: revision.number)
        return list_response(RevisionSerializer(page, many=True).data, last)


# --- Revisions --------------------------------------------------------------------------------------------------------
class FieldChangeSerializer(serializers.Serializer[Any]):
    """One changed field, from a tuple (field, before, after)."""

    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)

    def to_representation(self, instance: tuple[str, Any, Any]) -> dict[str, Any]:
        return dict(zip(("field", "before", "after"), instance, strict=True))


EntryDifferenceSerializer = record_serializer(
    EntryDifference,
    renamed={"entry": "uid", "changes": "fields"},
    texts={
        "path": "Empty: the entry was removed",
        "path_before": "Empty: the entry was added",
        "n_below": "Number of entries that were added or removed together with it",
    },
    changes=FieldChangeSerializer(source="fields", many=True),
)


class DiffSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    to = serializers.IntegerField()
    settings = FieldChangeSerializer(many=True)
    entries = EntryDifferenceSerializer(many=True)
    n_entries = serializers.IntegerField(
        help_text="Number on all pages; a subtree that was added or removed counts once"
    )
    next = serializers.CharField(allow_null=True)
    effective = EntryDifferenceSerializer(
        many=True, help_text="Entries that were not edited but have another target: the 100 largest changes"
    )
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Entries by kind of change")
    corrections = serializer_of(Correction)(many=True)
    n_outside_view = serializers.IntegerField(help_text="Number of changes that the caller may not see")

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "from": serializers.IntegerField()}  # a keyword of Python


class DiffFilterSerializer(serializers.Serializer[Any]):
    to = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, help_text="Default: the head revision"
    )
    cursor = serializers.CharField(required=False, max_length=200)


class RevisionDiffView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="diff_revisions", parameters=[DiffFilterSerializer], responses=DiffSerializer)
    def get(self, request: Request, policy: str, revision: int) -> Response:
        """Differences between two revisions. Changes that the caller may not see are only counted."""
        given, actor = read_query(DiffFilterSerializer, request), actor_of(request)
        position = read_cursor(given)
        cursor = None if position is None else str(position)
        to = given.get("to") or get_policy(slug=policy, actor=actor, is_past=True).head_number
        found = diff_revisions(
            policy_slug=policy, before=revision, after=to, cursor=cursor, at=clock.now(), actor=actor
        )
        return Response(
            {
                "policy": found.policy.slug,
                "from": found.before.number,
                "to": found.after.number,
                "settings": FieldChangeSerializer(found.settings, many=True).data,
                "entries": EntryDifferenceSerializer(found.rows, many=True).data,
                "n_entries": found.n_rows,
                "next": None if found.next_cursor is None else encode_cursor(int(found.next_cursor)),
                "effective": EntryDifferenceSerializer(found.kept, many=True).data,
                "counts": found.counts,
                "corrections": serializer_of(Correction)(found.corrections, many=True).data,
                "n_outside_view": found.n_outside + found.n_kept_outside,
            }
        )


HistoryLineSerializer = record_serializer(
    HistoryLine,
    exclude=("may_see_change_set",),
    renamed={"changes": "fields"},
    texts={"reverted_by": "Revision that reverted it; null: none"},
    origin=serializers.ChoiceField(ChangeSet.Origin.choices),
    changes=FieldChangeSerializer(source="fields", many=True),
)


class MemberRuleSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(help_text="Slug of a usage source")  # type: ignore[assignment]
    group = serializers.CharField()
    fqan = serializers.CharField()
    people = serializers.CharField(help_text="Group of the identity provider")
    shares = serializers.FloatField()
    kind = serializers.CharField()
    archive_after_days = serializers.IntegerField(allow_null=True)
    reach = serializers.UUIDField(
        allow_null=True, help_text="Entry below which the rule may move accounts; null: the whole policy"
    )
    reach_path = serializers.CharField(allow_null=True)


class EntryDetailSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField(allow_null=True)
    entry = EntrySerializer(allow_null=True, help_text="null: the entry is archived")
    member_rules = MemberRuleSerializer(many=True, help_text="Rules by which accounts become children of the entry")
    history = HistoryLineSerializer(many=True, help_text="Newest first; a move lists the names of both parents")
    next = serializers.CharField(allow_null=True)


class EntryFilterSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(max_length=40, required=False, help_text="Revision number or instant")
    cursor = serializers.CharField(required=False, max_length=200, help_text="`next` of the history's previous page")


class EntryDetailView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="get_entry", parameters=[EntryFilterSerializer], responses=EntryDetailSerializer)
    def get(self, request: Request, policy: str, entry: UUID) -> Response:
        """One entry, also an archived one, with its numbers and its history: who changed which field, when and why."""
        given, actor = read_query(EntryFilterSerializer, request), actor_of(request)
        at = moment_of(given.get("at"))
        history = get_entry_history(policy_slug=policy, uid=entry, before=read_cursor(given), actor=actor)
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
