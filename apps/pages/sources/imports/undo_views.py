"""Pages to undo an import, and to decide on hours that two usage sources report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid
from apps.priorities.sentences import numbers
from apps.runs.models import Run
from apps.runs.waiting import waiting_of
from apps.usage.authority import require_create
from apps.usage.held_hours import list_held_hours
from apps.usage.models import Import
from apps.usage.records.overlaps import decide_overlap
from apps.usage.records.undo import undo_conflict, undo_import
from apps.usage.selectors import get_import
from apps.usage.sources.merging import merge_sources
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

_AT_WORK = frozenset({Run.State.QUEUED, Run.State.RUNNING})


@dataclass(frozen=True, slots=True)
class UndoReport:
    """Whether an import can be undone, and the progress. state: can, cannot, at_work, stopped or done.

    code: of the reason why it can't be undone.
    """

    state: str
    text: str
    n_records: int
    percent: int | None = None
    code: str = ""


def undo_report(usage_import: Import) -> UndoReport | None:
    """Undo report of an import; None for dry runs, running imports and imports that changed no record."""
    run, undoing = usage_import.run, usage_import.undone_run
    if usage_import.dry_run or run.state in _AT_WORK:
        return None
    n_records = int(run.counts.get("new", 0)) + int(run.counts.get("corrected", 0))
    if usage_import.undone_at is not None and undoing is not None:
        return UndoReport("done", _done(undoing), n_records)
    if undoing is not None and undoing.state in _AT_WORK:
        part = min(undoing.progress_done / undoing.progress_total, 1.0) if undoing.progress_total else 0.0
        n_done = undoing.progress_done
        text = ngettext("%(n)s record removed so far.", "%(n)s records removed so far.", n_done)
        text %= {"n": numbers.count(n_done)}
        if waiting := waiting_of(undoing, at=clock.now()):
            text = waiting.sentence
        return UndoReport("at_work", text, n_records, int(part * 100))
    refusal = undo_conflict(usage_import)
    if refusal is not None:
        return UndoReport("cannot", refusal.message, n_records, code=refusal.code)
    if undoing is not None:
        return UndoReport("stopped", undoing.error or _("Interrupted; it continues."), n_records)
    return UndoReport("can", "", n_records) if n_records else None


def _done(undoing: Run) -> str:
    removed, back = int(undoing.result.get("removed", 0)), int(undoing.result.get("put_back", 0))
    text = ngettext("%(n)s record was removed", "%(n)s records were removed", removed)
    text %= {"n": numbers.count(removed)}
    if not back:
        return f"{text}."
    more = ngettext("%(n)s earlier version was restored", "%(n)s earlier versions were restored", back)
    return f"{text}, {more % {'n': numbers.count(back)}}."


@require_POST
def import_undo(request: HttpRequest, import_id: int) -> HttpResponse:
    """Start to undo an import; its page shows the progress, or why it can't be undone."""
    actor = actor_of(request)
    get_import(import_id=import_id, actor=actor)
    try:
        undo_import(import_id=import_id, reason=read_action(request).reason, at=clock.now(), actor=actor)
    except Conflict as refusal:
        messages.error(request, refusal.message)
    return SeeOther(reverse("pages:import", kwargs={"import_id": import_id}))


@require_safe
def overlaps(request: HttpRequest) -> HttpResponse:
    """List hours of a site that two sources report; those of the later source don't count until decided."""
    return _page(request)


@require_POST
def overlap_decide(request: HttpRequest) -> HttpResponse:
    """Decide whether hours that two sources report count from both or only from the first, or merge the sources."""
    actor = actor_of(request)
    require_create(actor, request.POST.get("held", ""))  # first, so that an error reveals nothing to other actors
    typed = {name: request.POST.get(name, "") for name in ("site", "kept", "held", "reason", "decision")}
    try:
        common: dict[str, Any] = {"reason": typed["reason"], "at": clock.now(), "actor": actor}
        if typed["decision"] == "merge":
            merge_sources(kept_slug=typed["kept"], merged_slug=typed["held"], **common)
        elif typed["decision"] in ("count", "drop"):
            counts = typed["decision"] == "count"
            decide_overlap(
                site=typed["site"], kept_slug=typed["kept"], held_slug=typed["held"], counts=counts, **common
            )
        else:
            raise Invalid(_("Choose an action."))
    except (Invalid, Conflict) as refusal:
        return _page(request, refused=typed, why=refusal.message, status=422)
    messages.success(request, _("Saved"))
    return SeeOther(reverse("pages:overlaps"))


def _page(
    request: HttpRequest, *, refused: dict[str, str] | None = None, why: str = "", status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    groups = list_held_hours(actor=actor)
    n_held = sum(group.state == "held" for group in groups)
    context = {
        "groups": [(group, _is_about(refused, group.site, group.kept, group.held)) for group in groups],
        "n_held": n_held,
        "may_decide": actor.is_admin,
        "refused": refused,
        "why": why,
        "crumbs": [
            {"label": _("Sources and quality"), "url": reverse("pages:sources")},
            {"label": _("Overlapping usage")},
        ],
    }
    return render(request, "pages/sources/imports/overlaps.html", context, status=status)


def _is_about(refused: dict[str, str] | None, *pair: str) -> bool:
    return refused is not None and tuple(refused[name] for name in ("site", "kept", "held")) == pair
