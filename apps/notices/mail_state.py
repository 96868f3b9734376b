"""Whether mail goes out: readiness, metrics and notices all ask this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Max, Q

from apps.notices.models import Mail

State = Mail.State


@dataclass(frozen=True, slots=True)
class FailingMail:
    """n: messages whose last attempt failed. since_at: when the oldest of them was written. error: of the newest."""

    n: int
    since_at: datetime
    error: str


def failing_mail() -> FailingMail | None:
    """Messages that wait for another attempt, and those that were abandoned after all that went out.

    A message to an address that is none was never attempted, and says nothing of the mail server.
    """
    if str(settings.FAIRSHARE_EMAIL) == "off":
        return None
    sent_at = Mail.objects.aggregate(at=Max("sent_at"))["at"]
    abandoned = Q(state=State.FAILED)
    if sent_at is not None:
        abandoned &= Q(created_at__gt=sent_at)
    failing = list(
        Mail.objects.filter(Q(state=State.WAITING) | abandoned, attempts__gt=0)
        .order_by("created_at", "pk")
        .values_list("created_at", "error")
    )
    return FailingMail(len(failing), failing[0][0], failing[-1][1]) if failing else None


def count_mails() -> Mapping[str, int]:
    """By state, as long as they are kept."""
    counts = dict(Mail.objects.exclude(state=State.EMPTY).values_list("state").annotate(n=Count("pk")).order_by())
    return {state: counts.get(state, 0) for state in (State.WAITING, State.SENT, State.FAILED)}
