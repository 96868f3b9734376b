"""Pages on queues: the waiting jobs that the reader may see, and why one of them waits."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.schedulers.pages import waiting_rows
from apps.contrib.schedulers.waiting import find_waiting, list_waiting
from apps.core import clock
from apps.core.errors import Conflict, NotFound, status_of
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.web.shell.requests import SeeOther, actor_of

_SHOWN = 100


@require_safe
def ask(request: HttpRequest, policy: str) -> HttpResponse:
    """List waiting jobs that the reader may see; `?job=` redirects to one job."""
    policy_row = get_policy(slug=policy, actor=actor_of(request), scope="self:read")
    if job := request.GET.get("job", "").strip()[:100]:
        return SeeOther(reverse("pages:job-why-of", kwargs={"policy": policy, "job": job.replace("/", "")}))
    return _page(request, policy_row, {})


@require_safe
def why(request: HttpRequest, policy: str, job: str) -> HttpResponse:
    """Explain why a job waits; `?scheduler=` if several schedulers have a job of this number."""
    actor = actor_of(request)
    page = get_policy(slug=policy, actor=actor, scope="self:read")
    try:
        waiting = find_waiting(
            job=job,
            scheduler=request.GET.get("scheduler", ""),
            policy_slug=policy,
            at=clock.now(),
            actor=actor,
        )
    except (NotFound, Conflict) as error:
        names = [each.message for each in error.fields]
        context: dict[str, Any] = {"asked": job, "problem": error.message, "schedulers": names}
        return _page(request, page, context, status=status_of(error))
    context = {
        "waiting": waiting,
        "verdict": waiting_rows.verdict(waiting),
        "terms": waiting_rows.term_lines(waiting),
        "zero_terms_text": waiting_rows.zero_terms_text(waiting),
        "ahead": waiting_rows.ahead_lines(waiting),
        "age_s": max((clock.now() - waiting.taken_at).total_seconds(), 0.0),
        "crumbs": _crumbs(page, job),
    }
    return render(request, "contrib/schedulers/why.html", context)


def _page(request: HttpRequest, policy: Policy, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    queue = list_waiting(policy_slug=policy.slug, limit=_SHOWN, at=clock.now(), actor=actor_of(request))
    whole = {"policy": policy, "queue": queue, "crumbs": _crumbs(policy), **context}
    return render(request, "contrib/schedulers/waiting.html", whole, status=status)


def _crumbs(policy: Policy, job: str = "") -> list[dict[str, str]]:
    first = {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})}
    all_jobs = {"label": _("Queue")}
    if not job:
        return [first, all_jobs]
    address = reverse("pages:job-why", kwargs={"policy": policy.slug})
    return [first, {**all_jobs, "url": address}, {"label": job}]
