"""Back-tests of change sets: asked for, computed in a run, and stored until the change set is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.core.periods import PERIODS_DAYS
from apps.engine.errors import BadParameter, BadTree
from apps.policies.changesets.change_sets import outcome_on_head, settings_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.size_guard import ProposedChange
from apps.policies.selectors import get_change_set
from apps.policies.settings import refuse_unsuitable_tree
from apps.priorities.change_effect_runs import corrections_after, digest_of
from apps.priorities.recompute.corrections import load_corrections
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.runs.waiting import RunWaiting, waiting_of
from apps.series.back_test import BackTest, back_test
from apps.series.days import Day, day_of, days_of, last_complete_day, site_zone
from apps.series.inputs import first_day, holds, read_inputs
from apps.series.models import ChangeSetBackTest
from apps.series.revision_context import PolicyState

KIND = "back_test"
DAYS = PERIODS_DAYS[:3]  # a year of a large policy takes too long to wait for
_ATTEMPTS = 3
State = Literal["ready", "stale", "asked", "failed", "absent", "no_days", "decided"]


@dataclass(frozen=True, eq=False)
class StoredBackTest:
    """The back-test of a change set and its state. absent: not asked for yet; no_days: no day has ended since the first
    shares and the first usage.

    n_done, n_days: finished days of the run at work, and all of them; 0 without one. waiting: while it has not begun.
    """

    state: State
    result: BackTest | None = None
    computed_at: datetime | None = None
    head_number: int = 0
    problem: str = ""
    n_done: int = 0
    n_days: int = 0
    waiting: RunWaiting | None = None


def get_back_test(change_set: ChangeSet, *, at: datetime) -> StoredBackTest:
    """The stored back-test. The caller checks who may see the change set, and all numbers of its policy."""
    if is_decided(change_set):
        return StoredBackTest("decided")
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    if not days_until(policy, at, 1):
        return StoredBackTest("no_days")
    row = ChangeSetBackTest.objects.filter(change_set=change_set).first()
    run = Run.objects.filter(kind=KIND, subject=_subject(change_set)).order_by("-pk").first()
    waits = run is not None and run.state in (Run.State.QUEUED, Run.State.RUNNING)
    counts = (run.progress_done, run.progress_total or 0) if run is not None and waits else (0, 0)
    progress = (*counts, waiting_of(run, at=at))
    is_newest_failed = run is not None and run.state == Run.State.FAILED
    problem = run.error if run is not None and is_newest_failed else ""
    if row is None or row.digest_of != digest_of(change_set):
        state: State = "asked" if waits else "failed" if is_newest_failed else "absent"
        return StoredBackTest(state, None, None, 0, problem, *progress)
    zone = site_zone()
    is_last = row.through_on == last_complete_day(at, zone)
    is_current = is_last and holds(policy, row.inputs, until=day_of(row.through_on, zone).to_at)
    state = "asked" if waits else "failed" if is_newest_failed else "ready" if is_current else "stale"
    result = BackTest.unpack(bytes(row.data), row.digest)
    return StoredBackTest(state, result, row.computed_at, row.head_number, problem, *progress)


def is_decided(change_set: ChangeSet) -> bool:
    return change_set.state in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)


@transaction.atomic
def request_back_test(*, change_set_id: int, n_days: int, at: datetime, actor: Actor) -> Run:
    """Enqueue a run that computes the last days; joins a waiting run.

    Raises Conflict (`decided`) for a decided change set, and Invalid for another number of days than DAYS.
    """
    change_set = get_change_set(id=change_set_id, actor=actor, at=at)
    if is_decided(change_set):
        raise Conflict(_("The change set is decided: there is nothing to test."), code="decided")
    if n_days not in DAYS:
        message = _("A back-test has %(days)s days.") % {"days": ", ".join(map(str, DAYS))}
        raise Invalid(message, fields=[FieldProblem("days", message)])
    return enqueue_run(
        kind=KIND,
        subject=_subject(change_set),
        arguments={"policy": change_set.policy.slug, "days": n_days},
        owner=actor.user,
        at=at,
        max_attempts=_ATTEMPTS,
    )


def run_back_test(run: Run, lease: Lease) -> dict[str, Any]:
    """Compute a back-test, and store it in place of the previous one."""
    change_set = ChangeSet.objects.select_related("policy").get(pk=int(run.subject.partition(":")[2]))
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    days = days_until(policy, lease.clock(), int(run.arguments["days"]))
    if not days:
        raise Invalid(_("No day has ended since the first shares and the first usage."), code="no_days")
    lease.report(0, len(days))
    inputs = read_inputs(policy, site_zone())
    try:
        result = back_test(policy, current_state(policy), draft_state(change_set, policy), days, done=lease.report)
    except (BadTree, BadParameter) as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None
    data, digest = result.pack()
    with lease.fenced():
        ChangeSetBackTest.objects.update_or_create(
            change_set=change_set,
            defaults={
                "digest_of": digest_of(change_set),
                "head_number": policy.head_number,
                "through_on": days[-1].on,
                "inputs": inputs,
                "computed_at": lease.clock(),
                "data": data,
                "digest": digest,
            },
        )
        summary = {"change_set": change_set.pk, "n_days": len(days), "n_entries": len(result.uid)}
        lease.finish(summary, lease.clock())
    return summary


def current_state(policy: Policy) -> PolicyState:
    """The head: its tree, settings and corrections."""
    return PolicyState.of_revision(policy, policy.head_number, settings_of(policy, policy.head_number))


def draft_state(change_set: ChangeSet, policy: Policy) -> PolicyState:
    """Tree, settings and corrections as publishing would leave them now.

    Raises Conflict where the change set can't be applied to the head.
    """
    proposed = ProposedChange.of_outcome(outcome_on_head(change_set, policy))
    refuse_unsuitable_tree(proposed.tree, proposed.settings.algorithm)
    corrections = corrections_after(load_corrections(policy, policy.head_number), proposed)
    return PolicyState(0, proposed.tree, proposed.settings, corrections)


def days_until(policy: Policy, at: datetime, n_days: int) -> list[Day]:
    """The last ended days, at most `n_days`, none before the first shares or usage."""
    zone = site_zone()
    last_on = last_complete_day(at, zone)
    first_on: date = max(last_on - timedelta(days=n_days - 1), first_day(policy, zone))
    return days_of(first_on, last_on, zone)


def _subject(change_set: ChangeSet) -> str:
    return f"changeset:{change_set.pk}"
