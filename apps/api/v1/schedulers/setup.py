"""A Slurm site from its own outputs to shadow mode, as the page of the first steps does it. For administrators."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.v1.policies.slurm_config import ConfigLineSerializer
from apps.api.v1.schedulers.shadow_serializers import ComparisonSerializer
from apps.api.v1.shapes import sent
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import NotFound
from apps.onboarding.first_policy_draft import (
    get_beginning,
    give_up,
    log_state,
    proposed_settings,
    read_tree,
    require_beginner,
    take_source,
)
from apps.onboarding.models import Beginning
from apps.onboarding.shadow_setup import publish_set_up
from apps.onboarding.sshare_comparison import compare_with_sshare
from apps.usage.parsers.registry import AUTO

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


class UsageDifferenceSerializer(serializers.Serializer[Any]):
    group = serializers.CharField()
    user = serializers.CharField()
    ours = serializers.FloatField(help_text="From the log")
    theirs = serializers.FloatField(help_text="RawUsage of sshare")
    difference = serializers.FloatField()
    reason = serializers.CharField()


class UsageComparisonSerializer(serializers.Serializer[Any]):
    unit = serializers.CharField()
    ours = serializers.FloatField()
    theirs = serializers.FloatField()
    quotient = serializers.FloatField(allow_null=True, help_text="ours / theirs where it is the same for all users")
    differences = UsageDifferenceSerializer(many=True)


class SshareComparisonSerializer(ComparisonSerializer):
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
        require_beginner(actor)
        given = sent(NewSetupSerializer, request)
        begun = read_tree(
            content=given["outputs"].encode(),
            file_name=given.get("name", "REST"),
            format=AUTO,
            at=at,
            actor=actor,
        )
        if given.get("source"):
            begun = take_source(version=begun.version, source_slug=given["source"], at=at, actor=actor)
        return Response(_json(begun, actor), status=201)

    @extend_schema(operation_id="discard_setup", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Forget it; usage that was imported stays."""
        actor = actor_of(request)
        give_up(version=_open(actor).version, at=clock.now(), actor=actor)
        return Response(status=204)


class SetupPolicyView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="publish_setup", request=PublishSetupSerializer, responses={201: PublishedSetupSerializer}
    )
    def post(self, request: Request) -> Response:
        """Publish the first policy, and connect its scheduler in shadow mode."""
        actor = actor_of(request)
        require_beginner(actor)
        given = sent(PublishSetupSerializer, request)
        slug = given.pop("policy")
        made = publish_set_up(slug=slug, name=slug, **given, at=clock.now(), actor=actor)
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
