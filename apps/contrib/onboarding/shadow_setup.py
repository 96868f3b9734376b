"""Publish the first policy of a Slurm site and connect its scheduler in shadow mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.onboarding.first_policy_draft import get_first_policy_draft, proposed_settings, publish_draft
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.sshare_comparison import stored_sshare, with_fitted_phase
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.policies.formats.registry import has_associations
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.usage.models import Source
from apps.usage.parsers.sacct_header import COLLECTED
from apps.usage.sources.services import change_source, tag_of


@dataclass(frozen=True)
class ShadowSetup:
    """The published policy and its scheduler; None if none was requested."""

    policy: Policy
    scheduler: Scheduler | None


def has_scheduler(beginning: FirstPolicyDraft) -> bool:
    """Whether the tree comes from Slurm, so that a scheduler can be connected with it."""
    return has_associations(str(beginning.facts.get("format", "")))


@dataclass(frozen=True)
class FirstPolicy:
    """A first policy to publish, with the scheduler to connect.

    settings: parts of PolicySettings; others are as proposed. scheduler: its name; "" for none. collects: whether the
    source of the log is then collected with sacct on this host.
    """

    slug: str
    name: str
    reason: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    scheduler: str = ""
    reach: str = Scheduler.Reach.AGENT.value
    collects: bool = False


def publish_first_policy(*, version: int, wanted: FirstPolicy, at: datetime, actor: Actor) -> ShadowSetup:
    """Publish the first policy and connect its scheduler in shadow mode, with the sshare output, in one transaction.

    Raises:
        Invalid: invalid fields, with the problem of each.
        Conflict: the log is missing, or a scheduler has this name.
    """
    with transaction.atomic():
        beginning = get_first_policy_draft(actor=actor)
        if beginning is None:
            raise NotFound(_("No set-up to continue: send the scheduler’s tree first."))
        if wanted.scheduler and not has_scheduler(beginning):
            message = _("A scheduler can be connected here only with a tree from Slurm.")
            raise Invalid(message, fields=[FieldProblem("scheduler", message)])
        if wanted.collects:
            _go_on_collecting(beginning, at, actor)
        namespace = beginning.source.namespace if beginning.source else ""
        settings = PolicySettings.from_json(wanted.settings, base=proposed_settings(beginning))
        policy = publish_draft(
            version=version,
            slug=wanted.slug,
            name=wanted.name,
            settings=with_fitted_phase(beginning, settings, at=at).to_json(),
            reason=wanted.reason,
            at=at,
            actor=actor,
        )
        if not wanted.scheduler:
            return ShadowSetup(policy, None)
        scheduler_settings = {
            "kind": Scheduler.Kind.SLURM,
            "reach": wanted.reach,
            "namespace": namespace,
            "mode": Scheduler.Mode.SHADOW,
        }
        values, values_at = stored_sshare(beginning), beginning.sshare_at
        try:
            scheduler = connect_scheduler(
                policy_slug=policy.slug,
                name=wanted.scheduler,
                settings=scheduler_settings,
                at=at,
                actor=actor,
                values=values,
                values_at=values_at,
            )
        except (Conflict, Invalid) as refusal:
            # The policy has a name, too.
            refusal.fields = tuple(
                replace(problem, where="scheduler") if problem.where == "name" else problem
                for problem in refusal.fields
            )
            raise
    return ShadowSetup(policy, scheduler)


def can_collect(beginning: FirstPolicyDraft) -> bool:
    """Whether records of the source are sent so far, and could be collected with sacct."""
    return has_scheduler(beginning) and beginning.source is not None and beginning.source.kind == Source.Kind.PUSH


def _go_on_collecting(beginning: FirstPolicyDraft, at: datetime, actor: Actor) -> None:
    """Collect with sacct into the source of the log, so that each job of both counts once.

    Raises:
        Invalid: the source is collected in another way, or the settings don't allow sacct (field `collects`).
    """
    source = beginning.source
    if source is None or not can_collect(beginning):
        message = _("This source can’t be collected with sacct.")
        raise Invalid(message, fields=[FieldProblem("collects", message)])
    new_settings = {"kind": Source.Kind.COMMAND, "collecting": {"command": COLLECTED.split()}}
    try:
        change_source(slug=source.slug, tag=tag_of(source), new_settings=new_settings, at=at, actor=actor)
    except Invalid as refusal:
        message = refusal.fields[0].message if refusal.fields else refusal.message
        raise Invalid(message, fields=[FieldProblem("collects", message)]) from refusal
