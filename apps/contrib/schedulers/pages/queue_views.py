"""Pages on queues: the waiting jobs that the reader may see, why one of them waits, and the ledger of SAM's queue."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from apps.contrib.jobs.gateway.selectors import MOST_OPEN, get_ledger
from apps.contrib.schedulers.pages import presenters
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
    found = get_policy(slug=policy, actor=actor_of(request), scope="self:read")
    if job := request.GET.get("job", "").strip()[:100]:
        return SeeOther(reverse("dashboard:job-why-of", kwargs={"policy": policy, "job": job.replace("/", "")}))
    return _page(request, found, {})


@require_safe
def why(request: HttpRequest, policy: str, job: str) -> HttpResponse:
    """Explain why a job waits; `?scheduler=` if several schedulers have a job of this number."""
    actor = actor_of(request)
    page = get_policy(slug=policy, actor=actor, scope="self:read")
    try:
        found = find_waiting(
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
        "found": found,
        "verdict": presenters.verdict(found),
        "terms": presenters.term_lines(found),
        "ahead": presenters.ahead_lines(found),
        "age_s": max((clock.now() - found.taken_at).total_seconds(), 0.0),
        "crumbs": _crumbs(page, job),
    }
    return render(request, "contrib/schedulers/why.html", context)


def _page(request: HttpRequest, policy: Policy, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    jobs, n = list_waiting(policy_slug=policy.slug, limit=_SHOWN, at=clock.now(), actor=actor_of(request))
    whole = {"policy": policy, "jobs": jobs, "n_jobs": n, "crumbs": _crumbs(policy), **context}
    return render(request, "contrib/schedulers/waiting.html", whole, status=status)


def _crumbs(policy: Policy, job: str = "") -> list[dict[str, str]]:
    first = {"label": policy.name, "url": reverse("dashboard:policy", kwargs={"policy": policy.slug})}
    all_jobs = {"label": _("Waiting jobs")}
    if not job:
        return [first, all_jobs]
    address = reverse("dashboard:job-why", kwargs={"policy": policy.slug})
    return [first, {**all_jobs, "url": address}, {"label": job}]


STATES = {
    "decided": gettext_lazy("Decided"),
    "started": gettext_lazy("Started"),
    "finished": gettext_lazy("Finished"),
    "cancelled": gettext_lazy("Cancelled"),
    "lost": gettext_lazy("Lost"),
}
QUEUES = {"front": gettext_lazy("front"), "back": gettext_lazy("back"), "priority": gettext_lazy("priority group")}
_WIDTH = 160


@require_safe
def ledger(request: HttpRequest, policy: str) -> HttpResponse:
    """Ledger of SAM's queue, for actors who may read it by REST."""
    found = get_ledger(policy_slug=policy, at=clock.now(), actor=actor_of(request))
    books, groups = found["ledger"], found["ledger"]["groups"]
    context = {
        "policy": policy,
        "rules": found["rules"],
        "unit": books["unit"],
        "total": books["total"],
        "groups": [group_line(name, each, books["total"]) for name, each in sorted(groups.items())],
        "states": [{"key": key, "label": label, "n": found["jobs"][key]} for key, label in STATES.items()],
        "open": [{**job, "label": STATES[job["state"]], "class": QUEUES[job["queue"]]} for job in found["open"]],
        "most_open": MOST_OPEN,
        "notes": found["notes"],
        "crumbs": [{"label": _("SAM queue")}],
    }
    return render(request, "contrib/schedulers/sam.html", context)


def group_line(name: str, each: dict[str, Any], total: float) -> dict[str, Any]:
    """One group of the ledger. entitled: its share of the total. width, mark: received part and share, as lengths."""
    fraction = each["fraction"] or 0.0
    return {
        **each,
        "name": name,
        "entitled": each["share"] * total,
        "is_over": each["owed"] < 0,
        "width": round(min(fraction, 1.0) * _WIDTH, 1),
        "mark": round(min(each["share"], 1.0) * _WIDTH, 1),
    }
