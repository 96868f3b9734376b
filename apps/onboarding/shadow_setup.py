"""A Slurm site from its own outputs to a scheduler in shadow mode: one service behind page, REST and command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.onboarding.first_policy_draft import found_policy, get_beginning
from apps.onboarding.models import Beginning
from apps.onboarding.sshare_comparison import sshare_of
from apps.policies.formats.registry import has_associations
from apps.policies.models import Policy
from apps.schedulers.models import Scheduler
from apps.schedulers.own_values import store_values
from apps.schedulers.services import connect_scheduler


@dataclass(frozen=True)
class ShadowSetup:
    """scheduler: None where none was asked for."""

    policy: Policy
    scheduler: Scheduler | None


def has_scheduler(beginning: Beginning) -> bool:
    """Whether the tree is Slurm's, so that one can be connected with it."""
    return has_associations(str(beginning.facts.get("format", "")))


def publish_set_up(
    *,
    version: int,
    slug: str,
    name: str,
    settings: Mapping[str, Any],
    scheduler: str,
    reason: str,
    at: datetime,
    actor: Actor,
    reach: str = Scheduler.Reach.AGENT,
) -> ShadowSetup:
    """Publish the first policy, and connect its scheduler in shadow mode with the sshare that was read; or neither.

    scheduler: its name; "" for none. settings: parts of PolicySettings; what they leave out is as the site has it.

    Raises:
        Invalid: what is wrong, each at its field.
        Conflict: the log is missing, or there is a scheduler of this name.
    """
    with transaction.atomic():
        beginning = get_beginning(actor=actor)
        if beginning is None:
            raise NotFound(_("No set-up to continue: send the scheduler’s tree first."))
        if scheduler and not has_scheduler(beginning):
            message = _("A scheduler is connected here with a tree of Slurm’s alone.")
            raise Invalid(message, fields=[FieldProblem("scheduler", message)])
        values, read_at = sshare_of(beginning), beginning.sshare_at
        namespace = beginning.source.namespace if beginning.source else ""
        policy = found_policy(
            version=version, slug=slug, name=name, settings=settings, reason=reason, at=at, actor=actor
        )
        if not scheduler:
            return ShadowSetup(policy, None)
        given = {"kind": Scheduler.Kind.SLURM, "reach": reach, "namespace": namespace, "mode": Scheduler.Mode.SHADOW}
        made = _connected(policy, scheduler, given, at, actor)
        if values and read_at is not None:
            store_values(made, values, read_at)
    return ShadowSetup(policy, made)


def _connected(policy: Policy, name: str, given: Mapping[str, Any], at: datetime, actor: Actor) -> Scheduler:
    """What is wrong with its name is so at the field of the scheduler: the policy has a name, too."""
    try:
        return connect_scheduler(policy_slug=policy.slug, name=name, given=given, at=at, actor=actor)
    except (Conflict, Invalid) as refusal:
        refusal.fields = tuple(
            replace(one, where="scheduler") if one.where == "name" else one for one in refusal.fields
        )
        raise
