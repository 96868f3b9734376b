"""Pages of usage sources: their list, one source, its collection, and the forms to set them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings as site_settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, Stale
from apps.pages.sources.figures import DAYS, coverage_figure
from apps.pages.sources.forms import SourceForm, default_values, initial_of, own_values, typed_command
from apps.pages.sources.imports.reports import import_line
from apps.pages.sources.presenters import coverage_of, headline, what_is_late
from apps.pages.sources.quality.views import quality_context
from apps.policies.selectors import list_policies
from apps.runs.models import Run
from apps.runs.waiting import waiting_of
from apps.usage import selectors
from apps.usage.authority import require_open
from apps.usage.models import Source
from apps.usage.sources import services
from apps.usage.sources.services import newest_collection
from apps.usage.sources.slurmrestd import parser_of
from apps.web.figures import Figure
from apps.web.figures.figure import read_days
from apps.web.shell import presentation
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.texts.source_lines import line_of, lines_of

KINDS: Sequence[tuple[str, Any, Any, str]] = (
    (
        Source.Kind.PUSH,
        gettext_lazy("Push (API or upload)"),
        gettext_lazy("A collector sends records with a token, or people upload files."),
        "send",
    ),
    (
        Source.Kind.DIRECTORY,
        gettext_lazy("Watched folder"),
        gettext_lazy("Accounting files in a folder that the worker can read."),
        "folder",
    ),
    (
        Source.Kind.COMMAND,
        gettext_lazy("Scheduler command"),
        gettext_lazy("sacct, squeue, qstat or another program permitted by the operator, run on a schedule."),
        "server-2",
    ),
    (
        Source.Kind.SLURM_REST,
        gettext_lazy("Slurm's REST daemon"),
        gettext_lazy("Finished jobs from its accounting database, and current jobs."),
        "plug-connected",
    ),
)
LABELS = {kind: label for kind, label, _text, _icon in KINDS}
PEER_LABEL = gettext_lazy("A peer’s feed: nothing to collect or to upload here")
_REFUSALS = (Invalid, Conflict, Stale)
_ABOUT = ("name", "slug", "origin", "time_zone", "cluster", "site", "namespace")
_SCHEDULE = ("collect_every", "expected_every", "overlap", "look_back", "timeout", "skew_tolerance_s")


@require_safe
def sources(request: HttpRequest) -> HttpResponse:
    """List sources with their lag and coverage, and the newest imports."""
    actor, now = actor_of(request), clock.now()
    lines = lines_of(actor)
    context = {
        "lines": lines,
        "headline": headline(lines),
        "late": what_is_late(lines, now),
        "shows_unmapped": any(line.unmapped for line in lines),
        "imports": _import_lines(actor),
        "may_import": actor.is_admin,
        "now": now,
        "crumbs": [{"label": _("Sources and quality")}],
        **quality_context(request, lines),
        "coverage": framed(request, reverse("pages:coverage"), lambda: _coverage(request)),
    }
    return render(request, "pages/sources/sources.html", context)


@require_safe
def coverage(request: HttpRequest, form: str = "json") -> HttpResponseBase:
    """Figure of the coverage calendar, for the page's query."""
    return answer_figure(request, _coverage(request), form)


def _coverage(request: HttpRequest) -> Figure:
    zone, actor = ZoneInfo(site_settings.TIME_ZONE), actor_of(request)
    source_days = selectors.list_source_days(
        n_days=read_days(request.GET, DAYS), at=clock.now(), zone=zone, actor=actor
    )
    return coverage_figure(source_days, request.GET)


@require_safe
def source(request: HttpRequest, slug: str) -> HttpResponse:
    """State, coverage and imports of one source, and how to send records to it."""
    actor, now = actor_of(request), clock.now()
    line = line_of(selectors.get_source(slug=slug, actor=actor), actor)
    context = {
        "line": line,
        "source": line.source,
        "imports": _import_lines(actor, slug),
        "may_import": actor.is_admin,
        "policies": list_policies(actor=actor) if actor.is_admin else [],
        "late": what_is_late([line], now),
        "address": request.build_absolute_uri("/"),
        **collecting_context(line.source, actor),
        "crumbs": [
            {"label": _("Sources and quality"), "url": reverse("pages:sources")},
            {"label": line.source.name},
        ],
        **coverage_of([line], actor),
    }
    return render(request, "pages/sources/source.html", context)


def _import_lines(actor: Actor, slug: str | None = None) -> list[dict[str, Any]]:
    now, lines = clock.now(), []
    for usage_import in selectors.list_imports(actor=actor, source_slug=slug, limit=10):
        text, badge, kind = import_line(usage_import, now)
        url = reverse("pages:import", args=[usage_import.pk])
        lines.append({"import": usage_import, "url": url, "text": text, "badge": badge, "kind": kind})
    return lines


@dataclass(frozen=True, slots=True)
class CollectingLine:
    """State of a source's collection.

    key: paused, at_work, not_yet, works, failed or in_part. badge: CSS class. what, error: for administrators only.
    """

    label: str
    is_collected: bool
    what: str
    interval: str
    key: str
    badge: str
    state: str
    next: str
    error: str
    error_title: str
    is_at_work: bool


def collecting_line(source: Source, newest: Run | None, now: datetime, *, with_details: bool) -> CollectingLine:
    is_at_work = newest is not None and newest.state in (Run.State.QUEUED, Run.State.RUNNING)
    key, badge, state = _state(source, newest, is_at_work, now)
    return CollectingLine(
        label=str(LABELS.get(source.kind, PEER_LABEL)),
        is_collected=source.is_collected,
        what=_what(source) if with_details else "",
        interval=_interval(source),
        key=key,
        badge=badge,
        state=state,
        next=_next(source, now),
        error=source.collect_error if with_details else "",
        error_title={"failed": _("Failed."), "in_part": _("Partly works.")}.get(key, _("Last error:")),
        is_at_work=is_at_work,
    )


def _state(source: Source, newest: Run | None, is_at_work: bool, now: datetime) -> tuple[str, str, str]:
    """Key, badge and text of the state."""
    if source.is_paused:
        return "paused", "", _("paused")
    if waiting := waiting_of(newest, at=now):
        return "at_work", "", waiting.sentence
    if is_at_work:
        return "at_work", "", _("collecting now")
    works = ("works", "ok", _("works"))
    if newest is None or newest.state == Run.State.CANCELLED:
        return ("not_yet", "", _("never collected")) if source.collected_at is None else works
    if newest.state == Run.State.FAILED:
        return "failed", "bad", _("failed")
    return ("in_part", "warn", _("partly works")) if source.collect_error else works


def _what(source: Source) -> str:
    """What is collected: files, a command, or an address."""
    terms = source.collecting
    if source.kind == Source.Kind.DIRECTORY:
        return f"{terms['folder']}/{terms['pattern']}"
    if source.kind == Source.Kind.COMMAND:
        return typed_command(terms["command"])
    return " ".join(filter(None, [str(terms.get("address", "")), parser_of(source)]))


def _interval(source: Source) -> str:
    if not source.collect_every_s:
        return _("manual")
    return _("every %(time)s") % {"time": presentation.duration(source.collect_every_s)}


def _next(source: Source, now: datetime) -> str:
    if source.is_paused:
        return _("after you resume it")
    if source.collect_due_at is None:
        return _("manual")
    seconds = presentation.seconds_between(now, source.collect_due_at)
    return _("at once") if seconds <= 0 else _("in %(age)s") % {"age": presentation.age(seconds)}


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Choose the kind of a new source, then enter its settings."""
    actor = _administrator(request)
    kind = request.GET.get("kind", "")
    if kind not in LABELS:
        return render(request, "pages/sources/source_kinds.html", {"kinds": KINDS, "crumbs": _crumbs(_("New source"))})
    if request.method != "POST":
        return _page(request, SourceForm(initial=default_values(kind), kind=kind, is_new=True))
    form = SourceForm(request.POST, kind=kind, is_new=True)
    if form.is_valid():
        try:
            made = services.set_up_source(
                slug=form.cleaned_data["slug"], new_settings=form.settings(), at=clock.now(), actor=actor
            )
        except _REFUSALS as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(_url(made.slug))
    return _page(request, form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Change the settings of a source; `tag` identifies the state that the page showed. kind: another way to get its
    records.
    """
    actor = _administrator(request)
    usage_source = selectors.get_source(slug=slug, actor=actor)
    require_open(usage_source)
    wanted = request.GET.get("kind", "")
    kind = wanted if wanted in LABELS else usage_source.kind
    if request.method != "POST":
        initial = (
            initial_of(usage_source)
            if kind == usage_source.kind
            else {**default_values(kind), **own_values(usage_source)}
        )
        return _page(request, SourceForm(initial=initial, kind=kind, is_new=False), usage_source)
    form = SourceForm(request.POST, kind=kind, is_new=False)
    if form.is_valid():
        try:
            tag = read_action(request).tag
            services.change_source(slug=slug, tag=tag, new_settings=form.settings(), at=clock.now(), actor=actor)
        except _REFUSALS as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(_url(slug))
    return _page(request, form, usage_source, status=form.status)


@require_POST
def pause(request: HttpRequest, slug: str) -> HttpResponse:
    services.pause_source(slug=slug, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Saved"))
    return SeeOther(_url(slug))


@require_POST
def resume(request: HttpRequest, slug: str) -> HttpResponse:
    services.resume_source(slug=slug, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Saved"))
    return SeeOther(_url(slug))


@require_POST
def collect(request: HttpRequest, slug: str) -> HttpResponse:
    services.collect_now(slug=slug, at=clock.now(), actor=actor_of(request))
    return SeeOther(_url(slug) + "#collecting")


def _url(slug: str) -> str:
    return reverse("pages:source", kwargs={"slug": slug})


@fragment(page=_url)
@require_safe
def collecting(request: HttpRequest, slug: str) -> HttpResponse:
    """Fragment that is polled while a collection runs; afterwards it contains no trigger to poll again."""
    usage_source = selectors.get_source(slug=slug, actor=actor_of(request))
    return render(request, "pages/sources/_collecting.html", collecting_context(usage_source, actor_of(request)))


def collecting_context(source: Source, actor: Actor) -> dict[str, Any]:
    """Context of the card on the page of a source, and of its fragment."""
    newest = newest_collection(source=source, actor=actor)
    may_set_up = services.may_set_up(actor)
    line = collecting_line(source, newest, clock.now(), with_details=may_set_up)
    return {"source": source, "collecting": line, "newest": newest, "may_set_up": may_set_up}


def _administrator(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    if not services.may_set_up(actor):
        raise NotAllowed(_("Administrators set up usage sources."))
    return actor


def _page(
    request: HttpRequest, form: SourceForm, usage_source: Source | None = None, *, status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "kind": form.kind,
        "kind_label": LABELS[form.kind],
        "source": usage_source,
        "tag": services.tag_of(usage_source) if usage_source else "",
        "kinds": [
            (kind, label) for kind, label in LABELS.items() if usage_source is not None and usage_source.kind in LABELS
        ],
        "own_fields": [form[name] for name in form.fields if name in _ABOUT and name != "names_people"],
        "interval_fields": [form[name] for name in form.fields if name in _SCHEDULE],
        "crumbs": _crumbs(_("Settings"), usage_source) if usage_source else _crumbs(_("New source")),
    }
    return render(request, "pages/sources/source_form.html", context, status=status)


def _crumbs(last: str, usage_source: Source | None = None) -> list[dict[str, str]]:
    crumbs = [{"label": _("Sources and quality"), "url": reverse("pages:sources")}]
    if usage_source is not None:
        crumbs.append({"label": usage_source.name, "url": _url(usage_source.slug)})
    return [*crumbs, {"label": last}]
