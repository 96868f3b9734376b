"""Pages of usage sources, and pages to upload, check, confirm and cancel imports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.code_paths import command_name
from apps.core.errors import Conflict, Invalid, NotAllowed, TooLarge
from apps.core.typed_numbers import read_whole
from apps.engine.decay import bucket_weights
from apps.engine.decay_functions import BUCKET_S
from apps.pages.sources.imports.forms import NEW_SOURCE, UploadForm
from apps.pages.sources.imports.reports import import_report, reason, reasons, size
from apps.pages.sources.imports.undo_views import undo_report
from apps.policies.changesets.change_sets import settings_of
from apps.policies.selectors import list_policies
from apps.priorities import selectors as priorities
from apps.priorities.metering import has_known_decay, window_of
from apps.priorities.selectors.import_effect import ImportEffect, get_import_effect
from apps.priorities.sentences import numbers
from apps.runs import services as runs
from apps.usage import selectors, services
from apps.usage.import_notes import note_lines
from apps.usage.models import Import, Source
from apps.usage.parsers.registry import AUTO, FORMATS
from apps.usage.records.imports import MOST_REJECTED_KEPT
from apps.web.shell import presentation
from apps.web.shell.requests import SeeOther, actor_of, csv_response, fragment, is_htmx
from apps.web.unnamed_uploads import UnnamedFileUploadHandler

REJECTED_PER_PAGE = 25
_FORM_BYTES = 1_000_000  # allowance for the other fields and boundaries of the request


@csrf_exempt  # `_upload` checks the token in the form, after the upload was directed to disk
@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    """Upload a file; permission and size are checked before the body of the request is read."""
    if not actor_of(request).is_admin:
        raise NotAllowed(_("Only administrators import usage. A collector can send records with a token."))
    if request.method == "POST":
        limit = int(settings.FAIRSHARE_UPLOAD_BYTES)
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit + _FORM_BYTES:
            raise _too_large(limit)
        request.upload_handlers = [UnnamedFileUploadHandler(request)]
    return _upload(request)


@csrf_protect
def _upload(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        slug = request.GET.get("source", "")
        known = {source.slug for source in selectors.list_sources(actor=actor) if source.kind != Source.Kind.PEER}
        return _upload_page(request, _upload_form(actor, initial={"source": slug} if slug in known else {}))
    form = _upload_form(actor, request.POST, request.FILES)
    if not form.is_valid():
        return _upload_page(request, form, status=422)
    if form.cleaned_data["file"].size > settings.FAIRSHARE_UPLOAD_BYTES:
        raise _too_large(settings.FAIRSHARE_UPLOAD_BYTES)
    try:
        made = _start(form, actor)
    except (Invalid, Conflict, TooLarge) as refusal:
        form.add_refusal(refusal)
        return _upload_page(request, form, status=422)
    url = _import_url(made.pk)
    if not is_htmx(request):
        return SeeOther(url)
    response = HttpResponse(status=204)
    response["HX-Redirect"] = url
    return response


@require_safe
def import_(request: HttpRequest, import_id: int) -> HttpResponse:
    """Page of one import; its fragment is polled while the import runs."""
    usage_import = selectors.get_import(import_id=import_id, actor=actor_of(request))
    context = _import_context(request, usage_import)
    crumbs = [
        {"label": _("Sources and quality"), "url": reverse("pages:sources")},
        {"label": usage_import.source.name, "url": reverse("pages:source", args=[usage_import.source.slug])},
        {"label": _("Import")},
    ]
    return render(request, "pages/sources/imports/import.html", {**context, "crumbs": crumbs})


def _import_url(import_id: int) -> str:
    return reverse("pages:import", kwargs={"import_id": import_id})


@fragment(page=_import_url)
@require_safe
def import_progress(request: HttpRequest, import_id: int) -> HttpResponse:
    """Fragment that is polled every two seconds; after the import has ended it contains no trigger to poll again."""
    usage_import = selectors.get_import(import_id=import_id, actor=actor_of(request))
    return render(request, "pages/sources/imports/_progress.html", _import_context(request, usage_import))


@fragment(page=_import_url)
@require_safe
def import_rejected(request: HttpRequest, import_id: int) -> HttpResponse:
    """Fragment with the next rejected lines."""
    usage_import = selectors.get_import(import_id=import_id, actor=actor_of(request))
    return render(request, "pages/sources/imports/_rejected.html", _import_context(request, usage_import))


@require_safe
def import_rejected_csv(request: HttpRequest, import_id: int) -> HttpResponseBase:
    """All rejected lines as CSV."""
    actor = actor_of(request)
    usage_import = selectors.get_import(import_id=import_id, actor=actor)
    header = ["line", "code", "message", "excerpt"]
    return csv_response(f"rejected-{usage_import.pk}.csv", header, _rejected_rows(usage_import.pk, actor))


@require_POST
def import_cancel(request: HttpRequest, import_id: int) -> HttpResponse:
    actor = actor_of(request)
    usage_import = selectors.get_import(import_id=import_id, actor=actor)
    runs.cancel_run(run_id=usage_import.run_id, at=clock.now(), actor=actor)
    return SeeOther(_import_url(import_id))


@require_POST
def import_confirm(request: HttpRequest, import_id: int) -> HttpResponse:
    """Import a file after its dry run. `take`: all lines or nothing, or the valid lines only."""
    whole = {"all": True, "good": False}.get(request.POST.get("take", ""))
    made = services.confirm_import(import_id=import_id, all_or_nothing=whole, at=clock.now(), actor=actor_of(request))
    return SeeOther(_import_url(made.pk))


def _upload_form(actor: Actor, *data: Any, initial: dict[str, Any] | None = None) -> UploadForm:
    return UploadForm(
        *data,
        sources=[
            (source.slug, source.name)
            for source in selectors.list_sources(actor=actor)
            if source.kind != Source.Kind.PEER
        ],
        formats=[
            (AUTO, _("Detect automatically")),
            *((file_format.name, _(file_format.label)) for file_format in FORMATS.values()),
        ],
        initial=initial,
    )


def _upload_page(request: HttpRequest, form: UploadForm, *, status: int = 200) -> HttpResponse:
    limit = int(settings.FAIRSHARE_UPLOAD_BYTES)
    context = {
        "form": form,
        "limit_bytes": limit,
        "limit": size(limit),
        "formats": FORMATS.values(),
        "crumbs": [
            {"label": _("Sources and quality"), "url": reverse("pages:sources")},
            {"label": _("Usage upload")},
        ],
    }
    template = "pages/sources/imports/_upload.html" if is_htmx(request) else "pages/sources/imports/upload.html"
    return render(request, template, context, status=status)


@transaction.atomic  # a rejected file must not leave a new source behind
def _start(form: UploadForm, actor: Actor) -> Import:
    chosen, now = form.cleaned_data, clock.now()
    slug = chosen["source"]
    if slug == NEW_SOURCE:
        slug = form.new_slug
        services.make_source(
            services.NewSource(slug=slug, name=chosen["new_source"], time_zone=chosen["time_zone"]), at=now, actor=actor
        )
    return services.start_import(
        services.NewImport(
            source_slug=slug,
            format=chosen["format"],
            file=chosen["file"].file,
            file_name=chosen["file"].name,
            time_zone=chosen["time_zone"],
            dry_run=chosen["mode"] == "dry",
            all_or_nothing=chosen["all_or_nothing"],
        ),
        at=now,
        actor=actor,
    )


def _too_large(limit: int) -> TooLarge:
    message = _("A file may have at most %(size)s. Split it, or ask an administrator to run “%(command)s”.")
    return TooLarge(message % {"size": size(limit), "command": command_name("import_usage")})


def _import_context(request: HttpRequest, usage_import: Import) -> dict[str, Any]:
    actor, now = actor_of(request), clock.now()
    report = import_report(usage_import, now)
    after = request.GET.get("after", "")
    after_line = read_whole(after) or 0
    # URL at which an administrator maps accounts, in the first policy; empty for other users.
    policy = next(iter(list_policies(actor=actor)), None) if actor.is_admin else None
    context: dict[str, Any] = {
        "import": usage_import,
        "report": report,
        "size": size(usage_import.n_bytes),
        "undo": undo_report(usage_import),
        "n_unmapped": None if report.is_unfinished else priorities.count_unmapped_of_import(usage_import),
        "map_url": "" if policy is None else reverse("pages:mappings", kwargs={"policy": policy.slug}) + "#unmapped",
        "effect": _effect(usage_import, actor),
        "window": _missed_window(usage_import, actor, now),
        "format": FORMATS[usage_import.format].label if usage_import.format in FORMATS else "",
        "noted": note_lines(usage_import.run.result.get("notes", {})),
    }
    if report.is_unfinished or not report.n_rejected:
        return context
    rejected_lines = selectors.list_rejected_lines(
        import_id=usage_import.pk, actor=actor, after_line=after_line, limit=REJECTED_PER_PAGE + 1
    )
    shown = rejected_lines[:REJECTED_PER_PAGE]
    return {
        **context,
        "rejected": [(line, reason(line.code)) for line in shown],
        "after_line": after_line,
        "next_after": shown[-1].line if len(rejected_lines) > REJECTED_PER_PAGE else None,
        "reasons": reasons(selectors.count_rejected_lines(import_id=usage_import.pk, actor=actor)),
        "kept": numbers.count(MOST_REJECTED_KEPT) if report.n_rejected > MOST_REJECTED_KEPT else "",
        "shown_text": numbers.count(len(shown)),
    }


def _effect(usage_import: Import, actor: Actor) -> ImportEffect | None:
    """Effect of a file after its dry run, on the first policy to which it adds usage."""
    if not (usage_import.dry_run and usage_import.run.state == usage_import.run.State.SUCCEEDED):
        return None
    effects = (
        get_import_effect(usage_import, policy_slug=each.slug, actor=actor) for each in list_policies(actor=actor)
    )
    return next((each for each in effects if each is not None and each.rows), None)


def _missed_window(usage_import: Import, actor: Actor, now: datetime) -> str:
    """Begin of the earliest usage window if all accepted records ended before it, so that they change no priority."""
    policies = list_policies(actor=actor)
    if usage_import.last_end_at is None or not policies:
        return ""
    settings_of_windows = [settings_of(policy, policy.head_number).window for policy in policies]
    if not all(map(has_known_decay, settings_of_windows)):
        return ""
    as_of_s = now.timestamp()
    end_s = min(usage_import.last_end_at.timestamp(), as_of_s)
    hour_s = (math.ceil(end_s / BUCKET_S) - 1) * BUCKET_S
    windows = [window_of(each) for each in settings_of_windows]
    if any(bucket_weights(hour_s, as_of_s, window) for window in windows):
        return ""
    begins = [begins_s for window in windows if (begins_s := window.begins_s(as_of_s)) is not None]
    return presentation.clock_time(datetime.fromtimestamp(min(begins), UTC), now) if begins else ""


def _rejected_rows(import_id: int, actor: Actor) -> Iterator[tuple[int, str, str, str]]:
    after_line = -1
    while True:
        rejected_lines = selectors.list_rejected_lines(
            import_id=import_id, actor=actor, after_line=after_line, limit=1000
        )
        yield from ((line.line, line.code, line.message, line.excerpt) for line in rejected_lines)
        if len(rejected_lines) < 1000:
            return
        after_line = rejected_lines[-1].line
