"""The page of the ledger of SAM's queue."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from apps.contrib.jobs.gateway.selectors import MOST_OPEN_JOBS, get_ledger
from apps.core import clock
from apps.web.shell.requests import actor_of

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
    overview = get_ledger(policy_slug=policy, at=clock.now(), actor=actor_of(request))
    books, groups = overview["ledger"], overview["ledger"]["groups"]
    context = {
        "policy": policy,
        "rules": overview["rules"],
        "unit": books["unit"],
        "total": books["total"],
        "groups": [group_line(name, each, books["total"]) for name, each in sorted(groups.items())],
        "states": [{"key": key, "label": label, "n": overview["jobs"][key]} for key, label in STATES.items()],
        "open": [{**job, "label": STATES[job["state"]], "class": QUEUES[job["queue"]]} for job in overview["open"]],
        "most_open": MOST_OPEN_JOBS,
        "notes": overview["notes"],
        "crumbs": [{"label": _("SAM queue")}],
    }
    return render(request, "contrib/jobs/ledger.html", context)


def group_line(name: str, each: dict[str, Any], total: float) -> dict[str, Any]:
    """One group of the ledger. due: the share of now of all that was received, by which the algorithm decides.

    width, mark: received part and share, as lengths.
    """
    fraction = each["fraction"] or 0.0
    return {
        **each,
        "name": name,
        "due": each["share"] * total,
        "is_over": each["owed"] < 0,
        "width": round(min(fraction, 1.0) * _WIDTH, 1),
        "mark": round(min(each["share"], 1.0) * _WIDTH, 1),
    }
