"""A Slurm site from its own outputs to shadow mode."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agent import site_commands
from apps.accounts.actor import Actor
from apps.contrib.onboarding import bounds as of_onboarding
from apps.contrib.onboarding.first_policy_draft import (
    discard_draft,
    get_first_policy_draft,
    log_state,
    proposed_settings,
    read_tree,
    require_setup,
    use_source,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.contrib.onboarding.slurm_config_api import ConfigLineSerializer
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare, with_fitted_phase
from apps.contrib.onboarding.usage_differences import UsageDifference
from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers.api.shadow import COMPARED, COMPARED_TEXTS, DifferenceSerializer
from apps.core import clock
from apps.core.errors import NotFound
from apps.usage.parsers.registry import AUTO
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView


class NewSetupSerializer(serializers.Serializer[Any]):
    outputs = serializers.CharField(
        max_length=of_onboarding.OUTPUTS,
        trim_whitespace=False,
        help_text=f"Outputs of {site_commands.listed()}, joined",
    )
    source = serializers.CharField(  # type: ignore[assignment]  # a field of serializers has this name
        max_length=bounds.SOURCE_SLUG,
        required=False,
        help_text="Slug of a usage source that already has the accounting log",
    )
    name = serializers.CharField(max_length=bounds.FILE_NAME, required=False, help_text="Name of the host, for display")


UsageComparisonSerializer = record_serializer(
    SshareComparison,
    component="UsageComparison",
    only="unit ours theirs quotient differences",
    renamed={name: f"usage.{name}" for name in ("ours", "theirs", "quotient")},
    texts={"quotient": "ours / theirs if it is the same for all users, else null"},
    differences=record_serializer(
        UsageDifference,
        reason=serializers.CharField(),
        hints=serializers.ListField(child=serializers.CharField(), help_text="What is not known of the site"),
    )(source="usage.differences", many=True),
)
SshareComparisonSerializer = record_serializer(
    SshareComparison,
    only=("algorithm", *COMPARED, "differences", "usage"),
    renamed={name: f"factors.{name}" for name in COMPARED},
    texts=COMPARED_TEXTS,
    differences=DifferenceSerializer(source="factors.ordered", many=True),
    usage=UsageComparisonSerializer(source="*"),
)


class SetupSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(help_text="Version of the set-up, to be sent when it is published")
    cluster = serializers.CharField(allow_blank=True)
    log = serializers.CharField(help_text="State of the accounting log; ready: the set-up can be published")
    settings = serializers.DictField(
        help_text="Proposed settings of the policy; parts that are absent have their default"
    )
    lines = ConfigLineSerializer(many=True)
    sshare = SshareComparisonSerializer(allow_null=True)


class PublishSetupSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    policy = serializers.SlugField(max_length=bounds.POLICY_SLUG)
    scheduler = serializers.CharField(
        max_length=of_schedulers.NAME,
        required=False,
        default="",
        allow_blank=True,
        help_text='Name of the scheduler to connect; "": none',
    )
    settings = BoundedDictField(required=False, default=dict, help_text="Settings in place of the proposed ones")
    collects = serializers.BooleanField(
        required=False, default=False, help_text="Collect further records with sacct on this host, into the same source"
    )
    reason = serializers.CharField(max_length=bounds.REASON)


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
        """The open set-up: proposed settings, and their difference from the site's sshare."""
        return Response(_json(_open(actor_of(request)), actor_of(request)))

    @extend_schema(operation_id="begin_setup", request=NewSetupSerializer, responses={201: SetupSerializer})
    def post(self, request: Request) -> Response:
        """Start a set-up, or start it again, from outputs of Slurm's commands. Nothing is published."""
        actor, at = actor_of(request), clock.now()
        require_setup(actor)
        body = read_body(NewSetupSerializer, request)
        begun = read_tree(
            content=body["outputs"].encode(),
            file_name=body.get("name", "REST"),
            format=AUTO,
            at=at,
            actor=actor,
        )
        if body.get("source"):
            begun = use_source(version=begun.version, source_slug=body["source"], at=at, actor=actor)
        return Response(_json(begun, actor), status=201)

    @extend_schema(operation_id="discard_setup", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Discard the open set-up. Imported usage stays."""
        actor = actor_of(request)
        discard_draft(version=_open(actor).version, at=clock.now(), actor=actor)
        return Response(status=204)


class SetupPolicyView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="publish_setup", request=PublishSetupSerializer, responses={201: PublishedSetupSerializer}
    )
    def post(self, request: Request) -> Response:
        """Publish the policy of the set-up, and connect its scheduler in shadow mode."""
        actor = actor_of(request)
        require_setup(actor)
        body = read_body(PublishSetupSerializer, request)
        slug = body.pop("policy")
        version = body.pop("version")
        wanted = FirstPolicy(slug=slug, name=slug, **body)
        made = publish_first_policy(version=version, wanted=wanted, at=clock.now(), actor=actor)
        scheduler = made.scheduler
        names = {"scheduler": scheduler and scheduler.name, "mode": scheduler and scheduler.mode}
        return Response({"policy": made.policy.slug, **names}, status=201)


PROPOSED = ("algorithm", "window", "metric", "approach")


def _open(actor: Actor) -> FirstPolicyDraft:
    draft = get_first_policy_draft(actor=actor)
    if draft is None:
        raise NotFound("No set-up is open: start one with a POST.")
    return draft


def _json(begun: FirstPolicyDraft, actor: Actor) -> dict[str, Any]:
    proposed = with_fitted_phase(begun, proposed_settings(begun), at=clock.now())
    compared = compare_with_sshare(begun, settings=proposed, at=clock.now(), actor=actor)
    return {
        "version": begun.version,
        "cluster": begun.facts.get("policy", ""),
        "log": str(log_state(begun)),
        "settings": {**begun.file_settings, **{part: getattr(proposed, part) for part in PROPOSED}},
        "lines": (begun.facts.get("slurm_config") or {}).get("lines", []),
        "sshare": None if compared is None else SshareComparisonSerializer(compared).data,
    }
