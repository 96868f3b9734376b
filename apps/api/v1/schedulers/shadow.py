"""Shadow mode: set up from a Slurm site's own outputs, compared with the scheduler's own numbers, and switched on."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.records import record_serializer
from apps.api.shapes import FIGURE_ANSWERS, FigureFilterSerializer, UtcTimeField, asked, figure_response, sent
from apps.api.v1.allocations.views import IF_MATCH, seen_tag
from apps.api.v1.policies.documents import ConfigLineSerializer
from apps.api.v1.schedulers.serializers import SchedulerSerializer, scheduler_json
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import NotFound
from apps.figures.agreement import DAYS, PERIODS_DAYS, agreement_figure
from apps.figures.figure import read_days
from apps.onboarding.first_policy_draft import (
    discard_draft,
    get_beginning,
    log_state,
    proposed_settings,
    read_tree,
    require_setup,
    use_source,
)
from apps.onboarding.models import Beginning
from apps.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.onboarding.sshare_comparison import compare_with_sshare
from apps.schedulers.orders import orders_of, tag_of
from apps.schedulers.selectors import get_scheduler, get_shadow, list_agreement
from apps.schedulers.services import SchedulerScope, switch_on
from apps.schedulers.shadow_differences import REASONS, UsageDifference
from apps.usage.parsers.registry import AUTO


# --- As sent and received ---------------------------------------------------------------------------------------------
class DifferenceSerializer(serializers.Serializer[Any]):
    """difference = by_usage + by_tree + by_rule."""

    group = serializers.CharField()
    user = serializers.CharField()
    ours = serializers.FloatField(help_text="Our factor")
    theirs = serializers.FloatField(help_text="The scheduler's")
    our_usage = serializers.FloatField()
    their_usage = serializers.FloatField()
    difference = serializers.FloatField(help_text="On the scale of the comparison")
    by_usage = serializers.FloatField()
    by_tree = serializers.FloatField()
    by_rule = serializers.FloatField()
    reason = serializers.ChoiceField(REASONS, help_text="The largest part; rounding, or none where they are equal")


class FactorComparisonSerializer(serializers.Serializer[Any]):
    users = serializers.IntegerField(help_text="That both know")
    equal = serializers.IntegerField(help_text="By the digits that the scheduler prints")
    unknown = serializers.IntegerField(help_text="Users of the scheduler without an entry here")
    scale = serializers.ChoiceField(
        ["factor", "position"], help_text="Factors with Slurm's own algorithms; else places in the order, 0 to 1"
    )
    largest = serializers.FloatField()
    differences = DifferenceSerializer(many=True)


class ShadowSerializer(serializers.Serializer[Any]):
    taken_at = UtcTimeField(allow_null=True, help_text="When the agent listed the scheduler's values")
    comparison = FactorComparisonSerializer(allow_null=True)


class SwitchOnSerializer(serializers.Serializer[Any]):
    partitions = serializers.ListField(child=serializers.CharField(max_length=64), required=False, default=list)
    subtree = serializers.CharField(max_length=8_400, required=False, default="", help_text="Path of an entry")
    everything = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=1_000, required=False, default="", allow_blank=True)


READ = frozenset({POLICIES_READ, POLICIES_WRITE})


class AgreementFilterSerializer(FigureFilterSerializer):
    agreement_days = serializers.ChoiceField(
        [str(n) for n in sorted(PERIODS_DAYS)], required=False, help_text="7 unless given"
    )


class DifferencesView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(operation_id="get_scheduler_differences", responses=ShadowSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """The scheduler's last values beside ours, the largest difference first, each split into its reasons."""
        found = get_shadow(name=scheduler, at=clock.now(), actor=actor_of(request))
        compared = None if found.comparison is None else found.comparison.to_json()
        return Response(ShadowSerializer({"taken_at": found.taken_at, "comparison": compared}).data)


class AgreementFigureView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(
        operation_id="get_scheduler_agreement_figure", parameters=[AgreementFilterSerializer], responses=FIGURE_ANSWERS
    )
    def get(self, request: Request, scheduler: str) -> HttpResponseBase:
        """Kendall's tau-b, Spearman's rho and the overlap of the first tenth, over time."""
        asked(AgreementFilterSerializer, request)
        query = request.query_params
        found = list_agreement(
            name=scheduler, n_days=read_days(query, DAYS, PERIODS_DAYS), at=clock.now(), actor=actor_of(request)
        )
        return figure_response(request, agreement_figure(found, query))


class SwitchOnView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="switch_scheduler_on",
        parameters=[IF_MATCH],
        request=SwitchOnSerializer,
        responses=SchedulerSerializer,
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Send values for these partitions, besides those that are on, for a subtree, or for everything."""
        at, actor = clock.now(), actor_of(request)
        get_scheduler(name=scheduler, at=at, actor=actor)
        tag, given = seen_tag(request, "scheduler"), sent(SwitchOnSerializer, request)
        reason = given.pop("reason", "")
        switch_on(SchedulerScope(**given), name=scheduler, tag=tag, at=at, actor=actor, reason=reason)
        view = get_scheduler(name=scheduler, at=at, actor=actor)
        response = Response(scheduler_json(view, orders_of(view.scheduler), tag_of(view.scheduler)))
        response["ETag"] = f'"{tag_of(view.scheduler)}"'
        return response


# --- A Slurm site from its own outputs to shadow mode -----------------------------------------------------------------
_MOST_CHARACTERS = 16_000_000


class NewSetupSerializer(serializers.Serializer[Any]):
    outputs = serializers.CharField(
        max_length=_MOST_CHARACTERS,
        trim_whitespace=False,
        help_text="What sacctmgr dump, scontrol show config, scontrol show partition and sshare -a -P -l print, in one",
    )
    source = serializers.CharField(  # type: ignore[assignment]  # a field of serializers has this name
        max_length=64, required=False, help_text="Slug of a usage source that has the log already"
    )
    name = serializers.CharField(max_length=255, required=False, help_text="Of the host, for people")


class UsageComparisonSerializer(serializers.Serializer[Any]):
    unit = serializers.CharField()
    ours = serializers.FloatField()
    theirs = serializers.FloatField()
    quotient = serializers.FloatField(allow_null=True, help_text="ours / theirs where it is the same for all users")
    differences = record_serializer(UsageDifference, reason=serializers.CharField())(many=True)


class SshareComparisonSerializer(FactorComparisonSerializer):
    algorithm = serializers.CharField()
    usage = UsageComparisonSerializer()


class SetupSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(help_text="Of what is changed or published next")
    cluster = serializers.CharField(allow_blank=True)
    log = serializers.CharField(help_text="How far the accounting log is: ready when it can be published")
    settings = serializers.DictField(help_text="Proposed parts of a policy's settings")
    lines = ConfigLineSerializer(many=True)
    sshare = SshareComparisonSerializer(allow_null=True)


class PublishSetupSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    policy = serializers.SlugField(max_length=64)
    scheduler = serializers.CharField(max_length=64, required=False, default="", help_text="Its name; none without")
    settings = serializers.DictField(required=False, default=dict, help_text="Instead of the proposed ones")
    reason = serializers.CharField(max_length=1_000)


class PublishedSetupSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    scheduler = serializers.CharField(allow_null=True)
    mode = serializers.CharField(allow_null=True)


class SetupView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
        "POST": frozenset({POLICIES_WRITE}),
        "DELETE": frozenset({POLICIES_WRITE}),
    }

    @extend_schema(operation_id="get_setup", responses=SetupSerializer)
    def get(self, request: Request) -> Response:
        """The set-up that is open: what is proposed, and how far it is from the site's own sshare."""
        return Response(_json(_open(actor_of(request)), actor_of(request)))

    @extend_schema(operation_id="begin_setup", request=NewSetupSerializer, responses={201: SetupSerializer})
    def post(self, request: Request) -> Response:
        """Begin, or begin again, with what Slurm's commands print. Nothing is published."""
        actor, at = actor_of(request), clock.now()
        require_setup(actor)
        given = sent(NewSetupSerializer, request)
        begun = read_tree(
            content=given["outputs"].encode(),
            file_name=given.get("name", "REST"),
            format=AUTO,
            at=at,
            actor=actor,
        )
        if given.get("source"):
            begun = use_source(version=begun.version, source_slug=given["source"], at=at, actor=actor)
        return Response(_json(begun, actor), status=201)

    @extend_schema(operation_id="discard_setup", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Forget it; usage that was imported stays."""
        actor = actor_of(request)
        discard_draft(version=_open(actor).version, at=clock.now(), actor=actor)
        return Response(status=204)


class SetupPolicyView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="publish_setup", request=PublishSetupSerializer, responses={201: PublishedSetupSerializer}
    )
    def post(self, request: Request) -> Response:
        """Publish the first policy, and connect its scheduler in shadow mode."""
        actor = actor_of(request)
        require_setup(actor)
        given = sent(PublishSetupSerializer, request)
        slug = given.pop("policy")
        version = given.pop("version")
        wanted = FirstPolicy(slug=slug, name=slug, **given)
        made = publish_first_policy(version=version, wanted=wanted, at=clock.now(), actor=actor)
        scheduler = made.scheduler
        names = {"scheduler": scheduler and scheduler.name, "mode": scheduler and scheduler.mode}
        return Response({"policy": made.policy.slug, **names}, status=201)


def _open(actor: Actor) -> Beginning:
    found = get_beginning(actor=actor)
    if found is None:
        raise NotFound("No set-up is open: begin with a POST.")
    return found


def _json(begun: Beginning, actor: Actor) -> dict[str, Any]:
    proposed = proposed_settings(begun)
    compared = compare_with_sshare(begun, settings=proposed, at=clock.now(), actor=actor)
    return {
        "version": begun.version,
        "cluster": begun.facts.get("policy", ""),
        "log": str(log_state(begun)),
        "settings": {**begun.file_settings, "algorithm": proposed.algorithm, "window": proposed.window},
        "lines": (begun.facts.get("slurm_config") or {}).get("lines", []),
        "sshare": None if compared is None else compared.to_json(),
    }
