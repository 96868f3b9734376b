"""From shadow mode to on, partition by partition or subtree by subtree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.schedulers.models import Scheduler
from apps.schedulers.selectors import get_scheduler
from apps.schedulers.services import change_scheduler


def switch_on(
    *,
    name: str,
    tag: str,
    at: datetime,
    actor: Actor,
    partitions: Sequence[str] = (),
    subtree: str = "",
    everything: bool = False,
    reason: str = "",
) -> Scheduler:
    """Values are sent for jobs of these partitions, of this subtree, or of everything; jobs outside are left alone.

    Where it is on already, partitions are added to those that are. subtree: a path; "" keeps the present one.

    Raises:
        Invalid: neither is given (`no_scope`), or one that the settings refuse.
        Conflict: the agent's checks found errors (`checks_failed`), such as usage that would count twice.
        Stale: it changed since.
    """
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    if not (partitions or subtree or everything):
        message = _("Choose a partition or a subtree.")
        raise Invalid(message, code="no_scope", fields=[FieldProblem("partitions", message)])
    wrong = [str(check["code"]) for check in scheduler.checks or () if check["severity"] == "error"]
    if wrong:
        message = _("Correct what the agent’s checks found first: %(codes)s.") % {"codes": ", ".join(wrong)}
        raise Conflict(message, code="checks_failed")
    given: dict[str, Any] = {"mode": Scheduler.Mode.ON}
    if everything:
        given |= {"partitions": None, "subtree": "/"}
    if subtree:
        given["subtree"] = subtree
    if partitions:
        already = (scheduler.partitions or []) if scheduler.mode == Scheduler.Mode.ON else []
        is_all = scheduler.mode == Scheduler.Mode.ON and scheduler.partitions is None
        given["partitions"] = None if is_all else list(dict.fromkeys([*already, *partitions]))
        canary = scheduler.canary_partition
        if given["partitions"] is not None and canary and canary not in given["partitions"]:
            given["canary_partition"] = ""
    return change_scheduler(name=name, tag=tag, given=given, at=at, actor=actor, reason=reason)
