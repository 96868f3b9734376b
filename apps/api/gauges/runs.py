"""The queue of background work, and the keys to the site."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Min, Q
from prometheus_client.core import Metric

from apps.accounts.models import Token
from apps.api.gauges.family import gauge
from apps.core import clock
from apps.runs.models import Run


def run_families() -> Iterator[Metric]:
    runs = gauge("fairshare_runs", "Units of background work", "kind", "state")
    waiting = gauge("fairshare_run_waiting_seconds", "How long the longest waiting run has been due", "kind")
    lost = gauge("fairshare_runs_lost", "Runs whose worker has let its lease go by", "kind")
    at = clock.now()
    for kind, state, count in Run.objects.values_list("kind", "state").annotate(n=Count("id")).order_by():
        runs.add_metric([kind, state], count)
    is_due = Q(state=Run.State.QUEUED, due_at__lte=at)
    is_lost = Q(state=Run.State.RUNNING, lease_until__lt=at)
    open_runs = Run.objects.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING)).values_list("kind")
    queue = open_runs.annotate(due=Min("due_at", filter=is_due), lost=Count("id", filter=is_lost)).order_by()
    for kind, due_at, n_lost in queue:
        waiting.add_metric([kind], 0.0 if due_at is None else (at - due_at).total_seconds())
        lost.add_metric([kind], n_lost)
    yield from (runs, waiting, lost)


def token_families() -> Iterator[Metric]:
    valid = gauge("fairshare_tokens_valid", "Tokens neither expired nor revoked")
    valid.add_metric([], Token.objects.filter(revoked_at=None, expires_at__gt=clock.now()).count())
    yield valid
