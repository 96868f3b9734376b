"""What is kept of promises for how long: rows for 90 days, and the sums of their days for ever.

What expired rows taught goes into the opening of the state, from which the rows that stay are replayed. Trees go before
the first row that taught them does. So both remain functions of what is stored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import TruncDate

from apps.accounts.clock_watch import believed
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.day_sums import sum_days
from apps.contrib.starts.learned import opening_of, rows_behind_opening
from apps.contrib.starts.learned_trees import SPAN
from apps.contrib.starts.models import Outcome, StartPromise, StartState, StartTrees
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.promise_rows import replay_rows

_KEEP_PROMISES = timedelta(days=90)
_DAY = TruncDate("made_at", tzinfo=UTC)
_REPLAYED = timedelta(days=30)  # younger rows are replayed from the opening: longer than the longest promise


def prune_promises(*, at: datetime) -> int:
    """Delete promises past their retention whose fate is known; returns their number."""
    return sum(_prune(scheduler, at) for scheduler in Scheduler.objects.order_by("pk"))


def _prune(scheduler: Scheduler, at: datetime) -> int:
    at = believed(at)
    with transaction.atomic():
        Scheduler.objects.select_for_update(no_key=True).get(pk=scheduler.pk)
        sum_days(scheduler, at=at)
        state = StartState.objects.filter(scheduler=scheduler).first()
        rows = StartPromise.objects.filter(scheduler=scheduler)
        old = rows.filter(made_at__lt=at - _KEEP_PROMISES)
        if state is None or not old.exists():
            return 0
        last = rows.filter(made_at__lt=at - _REPLAYED).aggregate(last=Max("made_in"))["last"]
        if last > state.opening_seq:
            opening = opening_of(state)
            behind = rows_behind_opening(state).filter(made_in__lte=last)
            replay_rows(opening, behind, after=state.opening_seq, until=last)
            state.opening, state.opening_digest = saved.save(opening)
            state.opening_seq = last
            state.save(update_fields=["opening", "opening_digest", "opening_seq"])
        is_taught = Q(left_in__lte=last, due_at=None) & ~Q(outcomes__contains=[Outcome.OPEN])
        for place in range(3):
            is_taught &= Q(**{f"settled_in__{place}__lte": last})
        # A day with an open promise, of an agent that was away or of a far plan, is summed again from all of its rows.
        is_open = Q(due_at__isnull=False, made_at__lt=at - _KEEP_PROMISES + timedelta(days=1))
        open_days = list(rows.filter(is_open).values_list(_DAY, flat=True).distinct())
        StartTrees.objects.filter(scheduler=scheduler, at__lt=at - _KEEP_PROMISES + SPAN).delete()
        gone, _each = old.filter(is_taught).alias(day=_DAY).exclude(day__in=open_days).delete()
    return gone
