"""What the actor's own jobs used on each of the last days, as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.actor import Actor
from apps.accounts.selectors import list_accounts_of
from apps.mapping.rules.rule_set import load_rule_set
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.selectors.rows import PolicyView
from apps.series.days import day_at, days_of

OWN_DAYS = 28


@dataclass(frozen=True, slots=True)
class OwnDays:
    """Core-seconds of raw usage by day, oldest first, from the first day with some; the last day is not over."""

    days: Sequence[date]
    used: Sequence[float]

    @property
    def total(self) -> float:
        return sum(self.used)


def load_own_days(view: PolicyView, *, actor: Actor, zone: ZoneInfo) -> OwnDays | None:
    """Of the leaves at which the actor's accounts alone count, and whose numbers the actor sees; None where nothing was
    used.
    """
    entries = _own_leaves(view, actor)
    if not entries:
        return None
    today = day_at(view.now, zone)
    days = days_of(today.on - timedelta(days=OWN_DAYS - 1), today.on, zone)
    days = [day for day in days if day.from_at < view.now]  # not one that begins right now
    edges = [*(day.from_at for day in days), view.now]
    delivered = load_delivered(policy=view.policy, tree=view.tree, entries=entries, edges=edges)
    columns = [delivered.column_of[i] for i in entries]
    used = delivered.below[:, columns].sum(axis=1).tolist()
    first = next((at for at, amount in enumerate(used) if amount > 0), None)
    if first is None:
        return None
    return OwnDays([day.on for day in days[first:]], used[first:])


def _own_leaves(view: PolicyView, actor: Actor) -> list[int]:
    """Leaves that others share, as a group without entries for its members, aren't among them."""
    if actor.user is None or view.snapshot is None:
        return []
    tree, resolver = view.tree, load_rule_set(view.policy, view.tree).on(view.tree)
    rows = list_accounts_of(actor.user)
    own = {canonical(AccountKey(*(getattr(row, name) for name in AccountKey._fields))) for row in rows}
    entries = {resolver.resolve(key).entry for key in own}
    return sorted(
        entry
        for entry in entries
        if entry > 0
        and not tree.n_children[entry]
        and view.visibility.outright[entry]
        and (place := int(view.snapshot_index[entry])) >= 0
        and own.issuperset(map(canonical, view.snapshot.index.accounts_of(place)))
    )
