"""Publish the first policy of a site and connect its scheduler in shadow mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.onboarding.first_policy_draft import (
    end_draft,
    get_first_policy_draft,
    proposed_settings,
    publish_draft,
)
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


# Of the scheduler whose tree a format has; those of Slurm's accounts are Slurm's.
_KINDS = {"ge": Scheduler.Kind.GRIDENGINE, "htcondor": Scheduler.Kind.HTCONDOR}


def kind_of(beginning: FirstPolicyDraft) -> Scheduler.Kind | None:
    """The kind of the scheduler that the tree comes from, which can be connected with it; None for other files."""
    return Scheduler.Kind.SLURM if is_slurm(beginning) else _KINDS.get(str(beginning.facts.get("format", "")))


def is_slurm(beginning: FirstPolicyDraft) -> bool:
    """Whether the tree is one of Slurm's accounts."""
    return has_associations(str(beginning.facts.get("format", "")))


@dataclass(frozen=True)
class FirstPolicy:
    """A first policy to publish, with the scheduler to connect.

    settings: parts of PolicySettings; others are as proposed. scheduler: its name; "" for none. collects: whether the
    source of the log is then collected with sacct on this host. into_existing: whether a policy that is there already
    stays as it is, so that only its source and scheduler are set up.
    """

    slug: str
    name: str
    reason: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    scheduler: str = ""
    reach: str = Scheduler.Reach.AGENT.value
    collects: bool = False
    into_existing: bool = False


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
        kind = kind_of(beginning)
        if wanted.scheduler and kind is None:
            message = _("A scheduler can be connected here only with its own tree.")
            raise Invalid(message, fields=[FieldProblem("scheduler", message)])
        if wanted.collects:
            _go_on_collecting(beginning, at, actor)
        namespace = beginning.source.namespace if beginning.source else ""
        settings = PolicySettings.from_json(wanted.settings, base=proposed_settings(beginning))
        policy = Policy.objects.filter(slug=wanted.slug).first() if wanted.into_existing else None
        if policy is not None:
            end_draft(version=version, policy=policy, at=at, actor=actor)
        else:
            policy = publish_draft(
                version=version,
                slug=wanted.slug,
                name=wanted.name,
                settings=with_fitted_phase(beginning, settings, at=at).to_json(),
                reason=wanted.reason,
                at=at,
                actor=actor,
            )
        scheduler = Scheduler.objects.filter(name=wanted.scheduler, policy=policy).first()
        if not wanted.scheduler or (scheduler is not None and wanted.into_existing):
            return ShadowSetup(policy, scheduler)
        scheduler_settings = {
            "kind": kind,
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
                former_lines=beginning.facts.get("former_lines"),
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
    return is_slurm(beginning) and beginning.source is not None and beginning.source.kind == Source.Kind.PUSH


def _go_on_collecting(beginning: FirstPolicyDraft, at: datetime, actor: Actor) -> None:
    """Collect with sacct into the source of the log, so that each job of both counts once.

    Raises:
        Invalid: the source is collected in another way, or the settings don't allow sacct (field `collects`).
    """
    source = beginning.source
    command = COLLECTED.split()
    if source is not None and source.kind == Source.Kind.COMMAND and source.collecting.get("command") == command:
        return
    if source is None or not can_collect(beginning):
        message = _("This source can’t be collected with sacct.")
        raise Invalid(message, fields=[FieldProblem("collects", message)])
    new_settings = {"kind": Source.Kind.COMMAND, "collecting": {"command": command}}
    try:
        change_source(slug=source.slug, tag=tag_of(source), new_settings=new_settings, at=at, actor=actor)
    except Invalid as refusal:
        message = refusal.fields[0].message if refusal.fields else refusal.message
        raise Invalid(message, fields=[FieldProblem("collects", message)]) from refusal
