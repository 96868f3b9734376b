"""State of use in the terms of a portal: of its own allocations or resources, as it takes them."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations import bounds as of_allocations
from apps.contrib.allocations.api.views import zone
from apps.contrib.allocations.exchange.portal_kinds import PORTALS, usage_in_terms
from apps.contrib.allocations.exchange.portals import PortalTerms, read_unit_rules
from apps.core import clock
from apps.core.code_paths import command_name
from apps.mapping.permissions import load_visibility
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField, BoundedListField
from apps.web.rest.inputs import read_body, require_seen_tree
from apps.web.rest.views import APIView


class PortalUsageRequestSerializer(serializers.Serializer[Any]):
    portal = serializers.ChoiceField(list(PORTALS))
    answers = BoundedDictField(
        help_text=f"Answers of the portal's REST interface by name, as `{command_name('portal fetch')}` prints them"
    )
    units = BoundedListField(
        child=serializers.CharField(max_length=of_allocations.UNIT_RULE),
        max_length=of_allocations.MOST_UNIT_RULES,
        required=False,
        default=list,
        help_text="Unit of an attribute or component, such as cpu=core-h*1000; none: core-hours",
    )
    below = serializers.CharField(
        max_length=bounds.ENTRY, required=False, default="/", help_text="Path of the entry whose children projects are"
    )
    starts_on = serializers.DateField(required=False, help_text="First day, where the portal names none")
    ends_on = serializers.DateField(required=False, help_text="Last day, where the portal names none")


class PortalUsageSerializer(serializers.Serializer[Any]):
    usage = serializers.ListField(
        child=serializers.DictField(),
        help_text="ColdFront: its allocations with `usage` of attributes. Waldur: bodies of set_usage, of this month",
    )


class PortalUsageView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_READ, POLICIES_WRITE})}

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="get_portal_usage",
        request=PortalUsageRequestSerializer,
        responses={200: PortalUsageSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Usage of the entries that the caller sees, by the portal's ids and in its units. Nothing is stored."""
        body = read_body(PortalUsageRequestSerializer, request)
        terms = PortalTerms(
            units=read_unit_rules(body["units"]), starts_on=body.get("starts_on"), ends_on=body.get("ends_on")
        )
        usage = usage_in_terms(
            body["portal"],
            body["answers"],
            terms,
            policy_slug=policy,
            below=body["below"],
            zone=zone(),
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
        return Response({"usage": usage})
