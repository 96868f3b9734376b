"""The card of the reader's waiting jobs on *My priority*."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

from apps.contrib.schedulers.my_jobs import list_my_waiting_jobs
from apps.contrib.schedulers.selectors import has_queue
from apps.core import clock
from apps.core.errors import DomainError
from apps.explain.my_priority import MyPriority
from apps.pages.my_priority.cards import CardContent, MyCard
from apps.web.shell.requests import actor_of


def waiting_content(request: HttpRequest, priority: MyPriority, _known: Sequence[MyPriority]) -> CardContent | None:
    try:
        jobs = list_my_waiting_jobs(policy_slug=priority.policy_slug, actor=actor_of(request), at=clock.now())
    except DomainError:
        return None
    return CardContent({"waiting_jobs": jobs, "has_queue": has_queue(priority.policy_slug)})


CARDS = (MyCard("jobs", 50, "contrib/schedulers/_my_waiting_jobs.html", waiting_content),)
