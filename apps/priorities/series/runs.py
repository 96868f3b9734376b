"""When a series is built: by a run of its own, month after month, behind everything that waits for nothing else."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from apps.policies.models import Policy
from apps.priorities.models import Series
from apps.priorities.series.building import Builder
from apps.priorities.series.calendar import days_of, last_ended, months_of, site_zone
from apps.priorities.series.inputs import built_from, read_inputs, stale_from
from apps.priorities.series.storing import BuiltMonth
from apps.priorities.series.tiles import Slots
from apps.runs.faults import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, let_others_go_first

KIND = "series"
SETTLES = timedelta(hours=1)  # late usage comes all the time: days that changed are made again once in a while


def build_series_stale(*, at: datetime) -> list[int]:
    """Ask for a run for each policy whose series lacks a day that is over, or isn't what it would be now."""
    return [
        ask_for_series(policy, at=at).pk
        for policy in Policy.objects.filter(head_number__gte=1).order_by("id")
        if is_wanted(policy, at=at)
    ]


def ask_for_series(policy: Policy, *, at: datetime) -> Run:
    """A run that brings the series up to date; joins one that waits already."""
    return enqueue_run(kind=KIND, subject=subject_of(policy), at=at)


def subject_of(policy: Policy) -> str:
    return f"policy:{policy.slug}"


def is_wanted(policy: Policy, *, at: datetime) -> bool:
    """Whether a day is missing, or some changed since and were left alone for a while."""
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    now = read_inputs(policy, zone)
    if series is None or series.through_on is None or series.redo_from_on is not None:
        return plan(policy, at=at) is not None
    if series.through_on < last_ended(at, zone):
        return True
    if series.built_at is not None and at - series.built_at < SETTLES and _same_rules(series, now):
        return False
    return stale_from(policy, series, now, zone) is not None


def plan(policy: Policy, *, at: datetime) -> dict[str, Any] | None:
    """Which days are to be made, and from what, as JSON; None where nothing is to be done."""
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    inputs = read_inputs(policy, zone)
    from_on, through_on = stale_from(policy, series, inputs, zone), last_ended(at, zone)
    if from_on is None and series is not None and series.through_on is not None:
        from_on = series.through_on + timedelta(days=1)
    if from_on is None or from_on > through_on:
        return None
    return {
        "from": from_on.isoformat(),
        "next": from_on.isoformat(),
        "through": through_on.isoformat(),
        "inputs": built_from(policy, zone),
    }


def work_series(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `series`: each month in one fenced transaction; goes on behind the last one that was committed."""
    policy = Policy.objects.get(slug=run.subject.removeprefix("policy:"))
    todo = dict(run.cursor) or plan(policy, at=lease.clock())
    if todo is None:
        return {"days": 0}
    first_on, next_on, through_on = (date.fromisoformat(todo[name]) for name in ("from", "next", "through"))
    days = days_of(next_on, through_on, site_zone())
    total, done = (through_on - first_on).days + 1, (next_on - first_on).days
    lease.report(done=done, total=total)
    builder, slots = Builder(policy, days), Slots(policy)
    for month_on, of_month in months_of(days):
        month = BuiltMonth(policy, month_on, of_month, slots)
        month.add_all(builder, of_month)
        done += len(of_month)
        with lease.fenced() as held:
            month.store()
            last_on = of_month[-1].on
            todo["next"] = (last_on + timedelta(days=1)).isoformat()
            _note(policy, todo, slots, is_last=last_on == through_on, at=lease.clock())
            if last_on == through_on:
                builder.keep()
            held.cursor, held.progress_done = todo, done
            held.save(update_fields=["cursor", "progress_done"])
            fault_point("series.before_commit")
            if last_on == through_on:
                lease.finish({"days": total, "from": todo["from"], "through": todo["through"]}, lease.clock())
        fault_point("series.after_commit")
        if not lease.finished:
            let_others_go_first(lease)
    return {"days": total}


def _note(policy: Policy, todo: dict[str, Any], slots: Slots, *, is_last: bool, at: datetime) -> None:
    """How far the series is: days before `redo_from_on` are made of these inputs."""
    Series.objects.get_or_create(policy=policy)
    series = Series.objects.defer("carry").get(policy=policy)
    from_on, next_on = (date.fromisoformat(todo[name]) for name in ("from", "next"))
    last_on = next_on - timedelta(days=1)
    series.first_on = from_on if series.first_on is None else min(series.first_on, from_on)
    series.through_on = last_on if series.through_on is None else max(series.through_on, last_on)
    series.redo_from_on = None if is_last else next_on
    series.inputs, series.n_slots, series.built_at = todo["inputs"], len(slots), at
    series.save()


def _same_rules(series: Series, now: dict[str, Any]) -> bool:
    """Nothing but usage changed."""
    return all(series.inputs.get(name) == value for name, value in now.items() if name != "watermarks")
