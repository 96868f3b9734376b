"""How long one's own jobs waited in the queue, beside the balance of the level that decides their rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from statistics import median
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.selectors import list_accounts_of
from apps.analytics.my_priority.rank_history import OwnEntry, get_own_entry
from apps.analytics.my_priority.records import MyWaits, WaitDay, Waited
from apps.analytics.series.calendar import site_zone
from apps.analytics.series.stored_series import load_series
from apps.core.errors import FieldProblem, Invalid
from apps.explain.walk import walk_to
from apps.policies.tree.columns import Mask
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.visibility.visible_entries import told_in
from apps.usage.models import Record

MOST_DAYS = 365
MOST_JOBS = 50_000  # the newest of them


def get_my_waits(*, policy_slug: str, entry_uid: UUID, n_days: int, actor: Actor, at: datetime) -> MyWaits:
    """Of the actor's accounts that lead to this entry; NotFound where none does."""
    if not 1 <= n_days <= MOST_DAYS:
        message = f"must be 1 to {MOST_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    told = told_in(policy=mine.policy, snapshot=mine.snapshot, at=at, actor=actor)
    level = _level(mine, told)
    since = mine.snapshot.as_of - timedelta(days=n_days)
    deviations, reported = _past(mine, level, since)
    jobs, n_left_out = _jobs(mine, actor, since, reported)
    by_day: dict[date, list[float]] = defaultdict(list)
    for started_on, waited_s in jobs:
        by_day[started_on].append(waited_s)
    days = tuple(
        WaitDay(on, len(waits), median(waits), max(waits), deviations.get(on)) for on, waits in sorted(by_day.items())
    )
    tree = mine.snapshot.tree
    return MyWaits(
        policy_slug=mine.policy.slug, policy_name=mine.policy.name, account=mine.account,
        level_name=tree.name[level], parent_name=tree.name[max(int(tree.parent[level]), 0)],
        revision=mine.snapshot.revision, days=days, knows_waits=bool(jobs) or not n_left_out, n_left_out=n_left_out,
        over=_together([day for day in days if (day.deviation or 0) > 0], by_day),
        under=_together([day for day in days if (day.deviation or 0) < 0], by_day),
    )  # fmt: skip


def _level(mine: OwnEntry, told: Mask) -> int:
    """The level that decides the rank, else the entry itself."""
    walk = walk_to(mine.snapshot, mine.entry)
    deciding = mine.entry if walk.deciding is None else walk.chain[walk.deciding]
    return deciding if told[deciding] else mine.entry


def _jobs(
    mine: OwnEntry, actor: Actor, since: datetime, reported: AbstractSet[date]
) -> tuple[list[tuple[date, float]], int]:
    """(day of the start, seconds waited) of each job, and how many of unknown wait are left out.

    A source that reports no submissions says that each job was submitted when it started. So a source none of whose
    jobs waited counts on the days of `reported` alone, when every source is known to report submissions.
    """
    rows = Record.objects.filter(
        account_id__in=_account_ids(mine.snapshot, mine.entry, actor), start_at__gt=since,
        start_at__lte=mine.snapshot.as_of, is_charge=False,
    ).exclude(state="withdrawn")  # fmt: skip
    newest = rows.order_by("-start_at").values_list("source_id", "start_at", "submit_at")[:MOST_JOBS]
    found = [(source, start_at, submit_at) for source, start_at, submit_at in newest if start_at is not None]
    waiting = {source for source, start_at, submit_at in found if start_at > submit_at}
    zone, jobs = site_zone(), []
    for source, start_at, submit_at in found:
        on = start_at.astimezone(zone).date()
        if source in waiting or on in reported:
            jobs.append((on, (start_at - submit_at).total_seconds()))
    return jobs, len(found) - len(jobs)


def _account_ids(snapshot: ServedSnapshot, entry: int, actor: Actor) -> list[int]:
    """The actor's own accounts that lead to the entry; of a token that is bound to a subtree none, as for charges."""
    if actor.user is None or (actor.token is not None and actor.token.subtree_uid is not None):
        return []
    return [
        account.pk
        for account in list_accounts_of(actor.user)
        if entry
        in snapshot.index.find_certain(
            AccountQuery(
                account.user_name, account.group_name, account.namespace, account.dn, account.fqan, account.project
            )
        )
    ]


def _past(mine: OwnEntry, level: int, since: datetime) -> tuple[dict[date, float], set[date]]:
    """Deviation by day, as the daily series has it at the end of the day before; and the days on which all sources that
    count reported submissions.
    """
    uid, zone = mine.snapshot.tree.uuid(level), site_zone()
    series = load_series(
        mine.policy, [uid], from_on=since.astimezone(zone).date() - timedelta(days=1),
        to_on=mine.snapshot.as_of.astimezone(zone).date(),
    )  # fmt: skip
    found, reported = {}, set()
    for day, on in enumerate(series.days.on):
        whole = float(series.peers_decayed[0][day])
        if series.competes[0][day] and whole > 0:
            found[on + timedelta(days=1)] = float(series.decayed[0][day]) / whole - float(series.target[0][day])
        if series.knows_waiting[0][day]:
            reported.add(on)
    return found, reported


def _together(days: Sequence[WaitDay], by_day: dict[date, list[float]]) -> Waited | None:
    waits = [waited_s for day in days for waited_s in by_day[day.on]]
    return Waited(len(days), len(waits), median(waits)) if waits else None
