"""Policies and their revisions."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.core.column_bounds import most_characters
from apps.mapping.permissions import load_visibility
from apps.mapping.removal import remove_policy
from apps.policies import selectors
from apps.policies.models import Policy, Revision
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, require_admin
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.class_factors import unmatched_class_factors
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField
from apps.web.rest.cursors import CursorSerializer, read_cursor
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.removal import RemovalReasonSerializer
from apps.web.rest.shapes import UtcTimeField, first_page, list_response, list_schema
from apps.web.rest.views import APIView

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


_WEIGHTS = (
    f"Weight of one second of {', '.join(RESOURCES)}, and of kinds such as gpu:h100, license/matlab or energy. "
    "GPUs of a kind without a weight count by that of gpu_s"
)


class MetricSerializer(serializers.Serializer[Any]):
    weights = serializers.DictField(child=serializers.FloatField(min_value=0), help_text=_WEIGHTS)
    class_factors = ClassFactorSerializer(many=True)
    site_factors = SiteFactorSerializer(many=True)


class UnitSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    symbol = serializers.CharField(help_text="Of allocations and capacities in this unit")
    weights = serializers.DictField(child=serializers.FloatField(min_value=0), help_text="As in a metric")
    class_factors = ClassFactorSerializer(many=True)
    minimum_charge_s = serializers.IntegerField(help_text="Each start of a job counts as at least so long")


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
    units = UnitSerializer(many=True, default=[], help_text="Beside the core-hour, which each policy has")
    rules = serializers.ListField(
        child=serializers.DictField(), default=[], help_text="Rules of allocations: each has the terms of its `kind`"
    )


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
    at = serializers.CharField(required=False, max_length=bounds.INSTANT, help_text="Revision number or instant")


class NewPolicySerializer(serializers.Serializer[Any]):
    """Checks types; `apps.policies` checks the values."""

    slug = serializers.CharField(max_length=bounds.POLICY_SLUG, help_text="Name in addresses: a–z, 0–9 and -")
    name = serializers.CharField(
        max_length=bounds.POLICY_NAME, required=False, help_text="Name on pages; default: the slug"
    )
    description = serializers.CharField(max_length=bounds.REASON, required=False, default="", allow_blank=True)
    visibility = serializers.CharField(
        max_length=most_characters(Policy, "visibility"),
        required=False,
        default=Policy.Visibility.PATH,
        help_text="`path` or `tree`",
    )
    settings = BoundedDictField(required=False, default=dict, help_text="Settings that differ from the defaults")


class PolicyListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({POLICIES_READ, PRIORITIES_READ}),
        "POST": frozenset({POLICIES_WRITE}),
    }

    def before_body(self, request: Request) -> None:
        actor = actor_of(request)
        if not actor.is_bound:  # otherwise the policy's name decides
            require_admin(actor, "")

    @extend_schema(operation_id="list_policies", responses=list_schema(PolicySerializer))
    def get(self, request: Request) -> Response:
        """Policies of this site. Everyone who signs in sees their names; a token of one policy sees that one only."""
        return list_response(PolicySerializer(selectors.list_policies(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_policy", request=NewPolicySerializer, responses={201: PolicyDetailSerializer})
    def post(self, request: Request) -> Response:
        """Make a policy with an empty tree, which change sets or documents then fill. For administrators."""
        body = read_body(NewPolicySerializer, request)
        settings = PolicySettings.from_json(body.pop("settings"))
        name = body.pop("name", body["slug"])
        slug, details = body.pop("slug"), PolicyDetails(**body)
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
        query = read_query(RemovalReasonSerializer, request)
        remove_policy(slug=policy, reason=query["reason"], at=clock.now(), actor=actor_of(request))
        return Response(status=204)


def policy_json(policy: Policy) -> dict[str, Any]:
    head = selectors.get_revision(policy=policy)
    settings = PolicySettings.from_stored(head.settings)
    more = {
        # Limits are of single entries: schedulers and rule steps answer them, to who sees the entries.
        "settings": {part: value for part, value in settings.to_json().items() if part != "limits"},
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
        query = read_query(CursorSerializer, request)
        viewed_policy = selectors.get_policy(slug=policy, actor=actor_of(request), is_past=True)
        sees = load_visibility(
            policy=viewed_policy, tree=load_tree(viewed_policy), at=clock.now(), actor=actor_of(request)
        )
        revisions = selectors.list_revisions(
            policy=viewed_policy, sees=sees, before=read_cursor(query), limit=_PAGE + 1
        )
        page, last = first_page(revisions, _PAGE, lambda revision: revision.number)
        return list_response(RevisionSerializer(page, many=True).data, last)
