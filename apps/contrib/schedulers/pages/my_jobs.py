"""The card of the reader's waiting jobs on *My priority*."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from apps.contrib.schedulers.my_jobs import list_my_waiting_jobs, listed_queue
from apps.core import clock
from apps.explain.verdict import queue_messages
from apps.pages.my_priority.cards import MyCard, answer_card
from apps.web.shell.requests import actor_of

CARDS = (
    MyCard(
        place="jobs",
        order=10,
        route="my-waiting-jobs",
        anchor="waiting-jobs",
        title=gettext_lazy("Place in queue"),
        height="jobs",
        is_early=True,
        follows_numbers=True,
        of_unmapped=True,
    ),
)


@require_safe
def waiting_jobs(request: HttpRequest) -> HttpResponse:
    """The reader's waiting jobs in a policy, best first."""
    policy = request.GET.get("policy", "")
    jobs = list_my_waiting_jobs(policy_slug=policy, actor=actor_of(request), at=clock.now())
    starting = next((job for job in jobs.jobs if job.start is not None), None)
    context = {
        "waiting_jobs": jobs,
        "queue": queue_messages(listed_queue(jobs)),
        "policy_slug": policy,
        "has_starts": starting is not None,
        "starting": starting,
    }
    return answer_card(request, "contrib/schedulers/_my_waiting_jobs.html", context, title=_("Place in queue"))
