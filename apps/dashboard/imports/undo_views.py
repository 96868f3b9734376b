"""What arrived twice, and what is taken back: hours that two sources tell of, imports that are undone."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.usage.authority import require_maker
from apps.usage.buckets.held_hours import list_held_hours
from apps.usage.records.overlaps import decide_overlap
from apps.usage.records.undo import undo_import
from apps.usage.selectors import get_import


@require_POST
def import_undo(request: HttpRequest, import_id: int) -> HttpResponse:
    """Asked for on the page of the import, which says then how far it is, or why it can't be."""
    actor = actor_of(request)
    get_import(import_id=import_id, actor=actor)
    try:
        undo_import(import_id=import_id, reason=request.POST.get("reason", ""), at=clock.now(), actor=actor)
    except Conflict as refusal:
        messages.error(request, refusal.message)
    return SeeOther(reverse("dashboard:import", kwargs={"import_id": import_id}))


@require_safe
def overlaps(request: HttpRequest) -> HttpResponse:
    """Hours of a site that two sources tell of; the later one's don't count until somebody decides."""
    return _page(request)


@require_POST
def overlap_decide(request: HttpRequest) -> HttpResponse:
    """Both count, or only the first does."""
    actor = actor_of(request)
    require_maker(actor, request.POST.get("held", ""))  # who may not decide learns nothing about a form
    given = {name: request.POST.get(name, "") for name in ("site", "kept", "held", "reason", "decision")}
    try:
        if given["decision"] not in ("count", "drop"):
            raise Invalid(_("Choose whether both count, or only the first."))
        decide_overlap(
            site=given["site"],
            kept_slug=given["kept"],
            held_slug=given["held"],
            counts=given["decision"] == "count",
            reason=given["reason"],
            at=clock.now(),
            actor=actor,
        )
    except Invalid as refusal:
        return _page(request, refused=given, why=refusal.message, status=422)
    messages.success(request, _("Saved. The next recompute applies it."))
    return SeeOther(reverse("dashboard:overlaps"))


def _page(
    request: HttpRequest, *, refused: dict[str, str] | None = None, why: str = "", status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    found = list_held_hours(actor=actor)
    n_held = sum(one.state == "held" for one in found)
    context = {
        "groups": [(one, _is_about(refused, one.site, one.kept, one.held)) for one in found],
        "n_held": n_held,
        "may_decide": actor.is_admin,
        "refused": refused,
        "why": why,
        "crumbs": [
            {"label": _("Usage sources"), "url": reverse("dashboard:sources")},
            {"label": _("From two sources")},
        ],
    }
    return render(request, "dashboard/usage/overlaps.html", context, status=status)


def _is_about(refused: dict[str, str] | None, *pair: str) -> bool:
    return refused is not None and tuple(refused[name] for name in ("site", "kept", "held")) == pair
