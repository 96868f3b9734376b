"""Figures by REST, as the pages draw them: settings, core-hours, convergence, my priority, tree, coverage."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import QueryDict
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from apps.analytics.comparison import get_algorithm_page
from apps.analytics.convergence.numbers import get_convergence_data
from apps.analytics.convergence.query import today_of
from apps.analytics.convergence.selectors import get_series_state
from apps.analytics.my_priority.numbers import get_my_numbers
from apps.api.authentication import ANY, POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.shapes import FIGURE_ANSWERS, FigureFilterSerializer, asked, entry_uid, figure_response, moment_of
from apps.api.v1.allocations.views import ENTRY, READ_WRITE, DaysSerializer, asked_entry, asked_period, this_year, zone
from apps.api.views import APIView
from apps.core import clock
from apps.figures.by_name import (
    CONVERGENCE_FIGURES,
    CORE_HOUR_FIGURES,
    MY_FIGURES,
    draw_core_hour_figure,
    draw_figure,
    draw_my_figure,
    read_figure,
    read_my_figure,
)
from apps.figures.core_hours.usage_weeks import SPLITS, UNITS
from apps.figures.coverage import DAYS, PERIODS_DAYS, coverage_figure
from apps.figures.curves import policy_decay_figure, policy_profile_figure
from apps.figures.figure import read_days
from apps.figures.my_priority.rank import MEASURES
from apps.figures.tree import tree_figure
from apps.figures.tree_options import COLORS, ENTRY_PARAMETER, KINDS, SIZES, read_tree_options
from apps.priorities.selectors.tree import get_icicle
from apps.priorities.selectors.usage import get_core_hour_weeks
from apps.usage.selectors import list_source_days

# --- Algorithm --------------------------------------------------------------------------------------------------------
_READ: Scopes = {"GET": frozenset({POLICIES_READ})}


class DecayFilterSerializer(FigureFilterSerializer):
    age = serializers.CharField(max_length=8, required=False, help_text="Days back: 7, 30, 90 or 365")
    law = serializers.ListField(
        child=serializers.CharField(max_length=32),
        required=False,
        help_text="Decay functions beside the policy's own; `own` for that alone",
    )


class OperatorFilterSerializer(FigureFilterSerializer):
    profile_target = serializers.CharField(
        max_length=16, required=False, help_text="Percent above 0 and below 100; 20 unless given"
    )
    profile = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Operators beside the policy's own; `own` for that alone",
    )


class DecayFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_decay_figure", parameters=[DecayFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """What is left of usage over its age, in percent."""
        asked(DecayFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        figure = policy_decay_figure(current.settings, policy, request.query_params, as_of_s=clock.now().timestamp())
        return figure_response(request, figure)


class OperatorFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_operator_figure", parameters=[OperatorFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Priority over the actual share, for one target."""
        asked(OperatorFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        return figure_response(request, policy_profile_figure(current.settings.algorithm, policy, request.query_params))


# --- Core-hours -------------------------------------------------------------------------------------------------------
class CoreHourFilterSerializer(DaysSerializer, FigureFilterSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    usage_by = serializers.ChoiceField(SPLITS, required=False, help_text="Of `usage`; group unless given")
    usage_unit = serializers.ChoiceField(UNITS, required=False, help_text="Of `usage`; core-hours unless given")
    usage_hide = serializers.ListField(
        child=serializers.CharField(max_length=128), required=False, help_text="Of `usage`: series to leave out"
    )
    left_hide = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, help_text="Of `burn-down`: entries to leave out"
    )


class AllocationFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(
        operation_id="get_allocation_figure",
        parameters=[OpenApiParameter("figure", str, "path", enum=tuple(CORE_HOUR_FIGURES)), CoreHourFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, policy: str, figure: str) -> HttpResponseBase:
        """`usage`: core-hours by week, by group or site. `burn-down`: what is left of allocations, week by week."""
        given = asked(CoreHourFilterSerializer, request)
        found = get_core_hour_weeks(
            policy_slug=policy,
            of=asked_entry(request, policy, given["of"]),
            zone=zone(),
            actor=actor_of(request),
            period=asked_period(given, usual=this_year()),
        )
        return figure_response(request, draw_core_hour_figure(figure, found, request.query_params))


# --- Convergence ------------------------------------------------------------------------------------------------------
_TEXT: dict[str, str] = {
    "entry": "uid or path whose children are meant; the root by default",
    "days": "7, 30, 90, 365 or all",
    "from": "a day, instead of days",
    "to": "a day, instead of days",
    "view": "decayed, windowed or raw",
    "of": "parent or total",
    "window": "days of view=windowed",
    "step": "hour: the last seven days by the hour",
    "measure": "today: all days against the current revision",
    "overlay": "of panels: band, changes, demand, gaps; several",
    "page": "of panels: twelve a page",
    "range": "of focus: 7, 30, 90, 365 or all",
    "show": "of focus: points, ratio or percent",
    "pick": "of focus: uid or path of an entry; up to eight",
    "slots": "of focus: a digit 1 to 8 a pick, its colour",
    "hide": "of focus: uid of a pick that is not drawn; several",
}
_SEVERAL = {"pick", "hide", "overlay"}


class ConvergenceFigureFilterSerializer(FigureFilterSerializer):
    """The names of the page's query: what they hold is read where the page reads it."""

    def get_fields(self) -> dict[str, Any]:
        """One of them, `from`, is no name of a class's body."""
        one = {name: _text(text) for name, text in _TEXT.items() if name not in _SEVERAL}
        many = {
            name: serializers.ListField(child=_text(""), required=False, help_text=_TEXT[name]) for name in _SEVERAL
        }
        return {**super().get_fields(), **one, **many}


def _text(help_text: str) -> serializers.CharField:
    return serializers.CharField(required=False, allow_blank=True, trim_whitespace=False, help_text=help_text)


class ConvergenceFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_convergence_figure",
        parameters=[
            OpenApiParameter("figure", str, "path", enum=CONVERGENCE_FIGURES),
            ConvergenceFigureFilterSerializer,
        ],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, policy: str, figure: str) -> HttpResponseBase:
        """One figure of the convergence pages for the query that the page has: `data` and `layout` are those of
        plotly.js, colours are names of design tokens. 422 where it can't be drawn; `empty` says why it has no picture.
        """
        actor = actor_of(request)
        query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
        asked(ConvergenceFigureFilterSerializer, request)
        query.pop("format", None)
        entry = query.pop("entry", [""])[-1]
        uid = entry_uid(request, policy, str(entry)) if entry else None
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        state = get_series_state(policy_slug=policy, actor=actor, scope=scope)
        wanted = read_figure(figure, query, state, today_of(clock.now()))
        numbers = wanted.numbers
        found = (
            None
            if numbers is None
            else get_convergence_data(numbers, policy_slug=policy, uid=uid, actor=actor, scope=scope)
        )
        return figure_response(request, draw_figure(wanted, found))


# --- My priority ------------------------------------------------------------------------------------------------------
class MyFigureFilterSerializer(FigureFilterSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.UUIDField(help_text="Of an account of one's own: `entry_uid` of /me")
    rank_days = serializers.CharField(max_length=8, required=False, help_text="Of `rank`: 14, 30, 90 or 365")
    rank_by = serializers.CharField(max_length=16, required=False, help_text=f"Of `rank`: {' or '.join(MEASURES)}")
    forecast_level = serializers.CharField(
        max_length=64, required=False, help_text="Of `forecast`: uid of the entry to draw"
    )
    share = serializers.CharField(
        max_length=16, required=False, help_text="Of `forecast`: percent of what its group runs, 0 to 100"
    )
    wait_days = serializers.CharField(max_length=8, required=False, help_text="Of `waits`: 30, 90 or 365")


class MyFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_my_figure",
        parameters=[OpenApiParameter("figure", location="path", enum=MY_FIGURES), MyFigureFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, figure: str) -> HttpResponseBase:
        """One figure of an account of one's own: `rank` over time, `forecast`, `factor` ahead, `places` or `waits`."""
        given = asked(MyFigureFilterSerializer, request)
        wanted = read_my_figure(figure, request.query_params)
        found = get_my_numbers(
            figure,
            policy_slug=given["policy"],
            entry_uid=given["entry"],
            n_days=wanted.n_days,
            share=wanted.share,
            actor=actor_of(request),
            at=clock.now(),
        )
        response = figure_response(request, draw_my_figure(wanted, found))
        response["Cache-Control"] = "private, no-store"
        return response


# --- Tree -------------------------------------------------------------------------------------------------------------
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
        if given.get(ENTRY_PARAMETER):
            query[ENTRY_PARAMETER] = str(entry_uid(request, policy, given[ENTRY_PARAMETER]))
        wanted = read_tree_options(query)
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


# --- Coverage ---------------------------------------------------------------------------------------------------------
class CoverageFilterSerializer(FigureFilterSerializer):
    coverage_days = serializers.ChoiceField(
        [str(n) for n in sorted(PERIODS_DAYS)], required=False, help_text="60 unless given"
    )


class CoverageFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="get_coverage_figure", parameters=[CoverageFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request) -> HttpResponseBase:
        """A row a source, a cell a day: complete, in part, or without usage that was expected."""
        asked(CoverageFilterSerializer, request)
        query = request.query_params
        found = list_source_days(
            n_days=read_days(query, DAYS, PERIODS_DAYS), at=clock.now(), zone=zone(), actor=actor_of(request)
        )
        return figure_response(request, coverage_figure(found, query))
