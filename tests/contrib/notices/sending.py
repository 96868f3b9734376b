"""The scheduled tasks of mail and webhooks with the runs that they start, as beat and workers do them."""

from __future__ import annotations

from apps.contrib.notices import digests, tasks, webhooks
from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_run_now


def send_notices() -> int:
    """Returns how many messages and deliveries were sent."""
    tasks.send_notices()
    return sum(_work("sent", digests.RUN_KIND, webhooks.RUN_KIND))


def _work(name: str, *kinds: str) -> list[int]:
    queued = Run.objects.filter(kind__in=kinds, state=Run.State.QUEUED, due_at__lte=clock.now()).order_by("pk")
    return [work_run_now(pk).result[name] for pk in queued.values_list("pk", flat=True)]
