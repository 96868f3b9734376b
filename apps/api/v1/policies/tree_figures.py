"""The picture of a tree by REST, as the page draws it."""

from __future__ import annotations

from typing import ClassVar

from django.http import QueryDict
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.instants import moment_of
from apps.api.v1.lists import asked
from apps.api.v1.policies.places import entry_uid
from apps.figures.tree.asked import COLORS, ENTRY, KINDS, SIZES, read_tree_asked
from apps.figures.tree.figure import tree_figure
from apps.priorities.selectors.icicle import get_icicle


class TreeFilterSerializer(FigureFilterSerializer):
    entry = serializers.CharField(
        required=False, help_text="uid or path of the entry that fills the picture; the root unless given"
    )
    kind = serializers.ChoiceField(KINDS, required=False, help_text="icicle unless given")
    size = serializers.ChoiceField(SIZES, required=False, help_text="What a field is as large as; target unless given")
    color = serializers.ChoiceField(COLORS, required=False, help_text="balance unless given")
    at = serializers.CharField(required=False, help_text="A past revision or instant")


class TreeFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_tree_figure", parameters=[TreeFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """A tree as nested fields: an icicle of five levels or a treemap of three, smaller entries together."""
        given = asked(TreeFilterSerializer, request)
        query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
        if given.get(ENTRY):
            query[ENTRY] = str(entry_uid(request, policy, given[ENTRY]))
        wanted = read_tree_asked(query)
        page = get_icicle(
            policy_slug=policy,
            actor=actor_of(request),
            chosen_uid=wanted.entry,
            sizes=wanted.size,
            levels=wanted.levels,
            smallest=wanted.smallest,
            at=moment_of(given.get("at")),
        )
        return figure_response(request, tree_figure(page, wanted, query))
