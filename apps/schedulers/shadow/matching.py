"""Which entry of ours each row of the scheduler's own values is about."""

from __future__ import annotations

from collections.abc import Sequence

from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.schedulers.own_values import OwnValue


def entries_of(rows: Sequence[OwnValue], snapshot: ServedSnapshot, namespace: str) -> list[int]:
    """−1: none, or several. A user's entry is the one that look-ups answer with; a group's is above its users'."""
    found = [-1] * len(rows)
    of_group: dict[str, int] = {}
    for i, one in enumerate(rows):
        if not one.user:
            continue
        places = snapshot.index.find_certain(AccountQuery(one.user, one.group, namespace))
        if len(places) != 1:
            continue
        found[i] = places[0]
        above = int(snapshot.tree.parent[places[0]])
        if above >= 0:
            of_group.setdefault(one.group, above)
    for i, one in enumerate(rows):
        if not one.user:
            found[i] = of_group.get(one.group, -1)
    return found
