"""A random mark for every number that a feed reaches, by which readers notice another lineage.

A site that was restored from a backup, or cloned, reaches the same numbers again with other usage. A reader that has
such a number would continue from it and keep the outdated usage below it; the mark shows that it isn't the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from apps.federation.documents.wire_usage import State
from apps.federation.models import FeedMark

KEPT = 100_000  # numbers that a reader may be behind: almost a year of one in five minutes
_MOST_DROPPED = 10_000  # at once


def add_marks(feed_id: int, *, after: int, upto: int) -> None:
    """The numbers that the feed comes to now; the oldest ones go. In the transaction that changes its number."""
    if upto == after:
        return
    made = [FeedMark(feed_id=feed_id, number=number, mark=uuid4()) for number in range(after + 1, upto + 1)]
    FeedMark.objects.bulk_create(made, batch_size=5_000)
    old = FeedMark.objects.filter(feed_id=feed_id, number__lte=upto - KEPT).order_by("number")[:_MOST_DROPPED]
    FeedMark.objects.filter(pk__in=old.values("pk")).delete()


def load_states(feed_id: int, numbers: Iterable[int]) -> dict[int, State]:
    """Those that are remembered, by number."""
    rows = FeedMark.objects.filter(feed_id=feed_id, number__in=set(numbers)).values_list("number", "mark")
    return {number: State(number, mark.hex) for number, mark in rows}
