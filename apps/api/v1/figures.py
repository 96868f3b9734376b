"""Figures of the pages, as JSON for plotly.js or as CSV."""

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
from apps.api.inputs import entry_uid, moment_of, read_query, visible_entry_uid
from apps.api.shapes import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.allocations.views import ENTRY, READ_WRITE, DaysSerializer, read_period, this_year, zone
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
    age = serializers.CharField(max_length=8, required=False, help_text="Number of days: 7, 30, 90 or 365")
    function = serializers.ListField(
        child=serializers.CharField(max_length=32),
        required=False,
        help_text="Decay functions to draw beside the policy's own; `own`: no others",
    )


class OperatorFilterSerializer(FigureFilterSerializer):
    profile_target = serializers.CharField(
        max_length=16, required=False, help_text="Percent above 0 and below 100; default 20"
    )
    profile = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Operators to draw beside the policy's own; `own`: no others",
    )


class DecayFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_decay_figure", parameters=[DecayFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Weight of usage by its age, in percent."""
        read_query(DecayFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        figure = policy_decay_figure(current.settings, policy, request.query_params, as_of_s=clock.now().timestamp())
        return figure_response(request, figure)


class OperatorFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_operator_figure", parameters=[OperatorFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Priority by actual share, for one target."""
        read_query(OperatorFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        return figure_response(request, policy_profile_figure(current.settings.algorithm, policy, request.query_params))


# --- Core-hours -------------------------------------------------------------------------------------------------------
class CoreHourFilterSerializer(DaysSerializer, FigureFilterSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    usage_by = serializers.ChoiceField(SPLITS, required=False, help_text="For `usage`; default: group")
    usage_unit = serializers.ChoiceField(UNITS, required=False, help_text="For `usage`; default: core-hours")
    usage_hide = serializers.ListField(
        child=serializers.CharField(max_length=128), required=False, help_text="For `usage`: series to leave out"
    )
    left_hide = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, help_text="For `burn-down`: entries to leave out"
    )


class AllocationFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(
        operation_id="get_allocation_figure",
        parameters=[OpenApiParameter("figure", str, "path", enum=tuple(CORE_HOUR_FIGURES)), CoreHourFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, policy: str, figure: str) -> HttpResponseBase:
        """`usage`: core-hours by week and by group or site. `burn-down`: remaining allocations, week by week."""
        given = read_query(CoreHourFilterSerializer, request)
        found = get_core_hour_weeks(
            policy_slug=policy,
            of=visible_entry_uid(request, policy, given["of"]),
            zone=zone(),
            actor=actor_of(request),
            period=read_period(given, default=this_year()),
        )
        return figure_response(request, draw_core_hour_figure(figure, found, request.query_params))


# --- Convergence ------------------------------------------------------------------------------------------------------
_TEXT: dict[str, str] = {
    "entry": "uid or path of the entry whose children are drawn; default: the root",
    "days": "Last days: 7, 30, 90, 365 or all",
    "from": "First day, in place of days",
    "to": "Last day, in place of days",
    "view": "decayed, windowed or raw usage",
    "of": "Shares of the parent or of the total: parent or total",
    "window": "Days, for view=windowed",
    "step": "hour: the last seven days by the hour",
    "measure": "today: all days against the current revision",
    "overlay": "For panels: band, changes, demand, gaps; may be repeated",
    "page": "For panels: page number; twelve panels a page",
    "range": "For focus: last 7, 30, 90, 365 days or all",
    "show": "For focus: points, ratio or percent",
    "pick": "For focus: uid or path of an entry to draw; up to eight times",
    "slots": "For focus: colour of each pick as a digit 1 to 8",
    "hide": "For focus: uid of a pick that is not drawn; may be repeated",
}
_SEVERAL = {"pick", "hide", "overlay"}


class ConvergenceFigureFilterSerializer(FigureFilterSerializer):
    """Query parameters of the convergence pages; their values are validated by the pages' parser."""

    def get_fields(self) -> dict[str, Any]:
        """Built here because `from` is a keyword of Python."""
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
        """One figure of the convergence pages, for the query of the page.

        `data` and `layout` are for plotly.js; colours are names of design tokens. 422 if it can't be drawn; `empty`
        gives the reason for a figure without picture.
        """
        actor = actor_of(request)
        query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
        read_query(ConvergenceFigureFilterSerializer, request)
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
    entry = serializers.UUIDField(help_text="Entry of one of the caller's accounts: `entry_uid` of /me")
    rank_days = serializers.CharField(max_length=8, required=False, help_text="For `rank`: 14, 30, 90 or 365")
    rank_by = serializers.CharField(max_length=16, required=False, help_text=f"For `rank`: {' or '.join(MEASURES)}")
    forecast_level = serializers.CharField(
        max_length=64, required=False, help_text="For `forecast`: uid of the entry to draw"
    )
    share = serializers.CharField(
        max_length=16,
        required=False,
        help_text="For `forecast`: assumed share of its group's usage in percent, 0 to 100",
    )
    wait_days = serializers.CharField(max_length=8, required=False, help_text="For `waits`: 30, 90 or 365")


class MyFigureView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_my_figure",
        parameters=[OpenApiParameter("figure", location="path", enum=MY_FIGURES), MyFigureFilterSerializer],
        responses=FIGURE_ANSWERS,
    )
    def get(self, request: Request, figure: str) -> HttpResponseBase:
        """One figure about one of the caller's accounts: `rank` over time, `forecast`, forecast of the `factor`,
        `places` or `waits`.
        """
        given = read_query(MyFigureFilterSerializer, request)
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
        required=False, help_text="uid or path of the entry at the top of the figure; default: the root"
    )
    kind = serializers.ChoiceField(KINDS, required=False, help_text="Default: icicle")
    size = serializers.ChoiceField(
        SIZES, required=False, help_text="Number that decides the size of a field; default: target"
    )
    color = serializers.ChoiceField(
        COLORS, required=False, help_text="Number that decides the colour; default: balance"
    )
    at = serializers.CharField(required=False, help_text="Past revision or instant")


class TreeFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_tree_figure", parameters=[TreeFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """The tree as nested fields: an icicle of five levels or a treemap of three. Small entries are combined."""
        given = read_query(TreeFilterSerializer, request)
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
        [str(n) for n in sorted(PERIODS_DAYS)], required=False, help_text="Last days; default 60"
    )


class CoverageFigureView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="get_coverage_figure", parameters=[CoverageFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request) -> HttpResponseBase:
        """Coverage of usage, one row a source and one cell a day: complete, partial, or expected usage is missing."""
        read_query(CoverageFilterSerializer, request)
        query = request.query_params
        found = list_source_days(
            n_days=read_days(query, DAYS, PERIODS_DAYS), at=clock.now(), zone=zone(), actor=actor_of(request)
        )
        return figure_response(request, coverage_figure(found, query))
