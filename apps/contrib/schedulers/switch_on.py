"""A scheduler goes from shadow mode to on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import get_scheduler
from apps.contrib.schedulers.services import change_scheduler
from apps.core.errors import Conflict, FieldProblem, Invalid


@dataclass(frozen=True)
class SchedulerScope:
    """Jobs whose values are sent. subtree: a path; "" keeps the present one."""

    partitions: Sequence[str] = ()
    subtree: str = ""
    everything: bool = False


def switch_on(scope: SchedulerScope, *, name: str, tag: str, at: datetime, actor: Actor, reason: str = "") -> Scheduler:
    """Send values for jobs of these partitions, of this subtree, or of all; other jobs are not touched.

    If the scheduler is already on, the partitions are added to its present ones. subtree: a path; "" keeps the present
    one.

    Raises:
        Invalid: no scope is given (`no_scope`), or one that the settings reject.
        Conflict: the agent's checks found errors (`checks_failed`), such as usage that would be counted twice.
        Stale: it changed since.
    """
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    if not (scope.partitions or scope.subtree or scope.everything):
        message = _("Choose a partition or a subtree.")
        raise Invalid(message, code="no_scope", fields=[FieldProblem("partitions", message)])
    wrong = [str(check["code"]) for check in scheduler.checks or () if check["severity"] == "error"]
    if wrong:
        message = _(
            "Correct what the agent’s checks found first: %(codes)s. It checks again at its next pass, within %(n)d s:"
            " then switch on again."
        )
        values = {"codes": ", ".join(wrong), "n": scheduler.every_s}
        raise Conflict(message % values, code="checks_failed")
    settings: dict[str, Any] = {"mode": Scheduler.Mode.ON}
    if scope.everything:
        settings |= {"partitions": None, "subtree": "/"}
    if scope.subtree:
        settings["subtree"] = scope.subtree
    if scope.partitions:
        already = (scheduler.partitions or []) if scheduler.mode == Scheduler.Mode.ON else []
        is_all = scheduler.mode == Scheduler.Mode.ON and scheduler.partitions is None
        settings["partitions"] = None if is_all else list(dict.fromkeys([*already, *scope.partitions]))
        canary = scheduler.canary_partition
        if settings["partitions"] is not None and canary and canary not in settings["partitions"]:
            settings["canary_partition"] = ""
    return change_scheduler(name=name, tag=tag, settings=settings, at=at, actor=actor, reason=reason)
