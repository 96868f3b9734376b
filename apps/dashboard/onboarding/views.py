"""From the scheduler's tree and its log to a first policy: four steps, each a plain form, left and resumed at will."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from apps.core.typed_numbers import read_whole
from apps.dashboard.imports.reports import size
from apps.dashboard.onboarding.forms import FirstPolicyForm, LogForm, TreeForm, ZoneForm, algorithms_for
from apps.dashboard.onboarding.pages import Asked, log_context, show
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment, is_htmx
from apps.onboarding import first_policy_draft as drafting
from apps.onboarding.first_policy_draft import (
    LogState,
    get_beginning,
    log_state,
    proposed_settings,
    require_setup,
    tree_of,
)
from apps.onboarding.shadow_setup import FirstPolicy, has_scheduler, publish_first_policy

MOST_TREE_BYTES = 64 * 2**20
_FORM_ROOM = 1_000_000  # what the fields and boundaries around a file may take


def page_url(**_kwargs: object) -> str:
    return reverse("dashboard:setup")


@require_safe
def setup(request: HttpRequest) -> HttpResponse:
    """Where the beginning is, whoever began it and however long ago."""
    return show(request)


@fragment(page_url)
@require_safe
def progress(request: HttpRequest) -> HttpResponse:
    """Polled while the log is read; once something is to decide, the whole page is shown anew."""
    beginning = get_beginning(actor=actor_of(request))
    if beginning is None or log_state(beginning) not in (LogState.READING, LogState.IMPORTING):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = page_url()
        return response
    return render(request, "dashboard/onboarding/_progress.html", log_context(request, beginning))


@csrf_exempt  # the token in the form is checked by `_tree`, after it is clear that the file fits
@require_POST
def tree(request: HttpRequest) -> HttpResponse:
    """Step 1: the tree, read whole or refused with every wrong line."""
    _refuse_too_large(request, MOST_TREE_BYTES)
    return _tree(request)


@csrf_protect
def _tree(request: HttpRequest) -> HttpResponse:
    form = TreeForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(request, Asked(tree=form), status=422)
    content, name = form.content
    try:
        drafting.read_tree(
            content=content,
            file_name=name,
            format=form.cleaned_data["format"],
            slurm_config=form.cleaned_data["slurm_config"].read() if form.cleaned_data["slurm_config"] else b"",
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, TooLarge) as refusal:
        return show(request, Asked(tree=form, refusal=refusal), status=422)
    return SeeOther(page_url())


@require_POST
def here(request: HttpRequest) -> HttpResponse:
    """Steps 1 and 2 by Slurm's commands on this host: `what` is tree or log."""
    given: dict[str, Any] = {"at": clock.now(), "actor": actor_of(request)}
    what = request.POST.get("what", "")
    try:
        if what == "log":
            slug = slugify(request.POST.get("source_name", "")) or "slurm"
            drafting.send_log_here(version=_version(request), source_slug=slug[:64], **given)
        else:
            drafting.read_tree_here(**given)
    except (Invalid, TooLarge, Unavailable, Conflict) as refusal:
        return show(request, Asked(tree=TreeForm() if what != "log" else None, refusal=refusal), status=422)
    return SeeOther(page_url())


@csrf_exempt  # the token in the form is checked by `_log`, after the file has a place on disk
@require_POST
def log(request: HttpRequest) -> HttpResponse:
    """Step 2: the accounting log, read without storing anything."""
    _refuse_too_large(request, int(settings.FAIRSHARE_UPLOAD_BYTES))
    return _log(request)


@csrf_protect
def _log(request: HttpRequest) -> HttpResponse:
    form = LogForm(request.POST, request.FILES)
    if not form.is_valid():
        return _log_refused(request, form)
    chosen = form.cleaned_data
    try:
        drafting.send_log(
            drafting.LogFile(
                file=chosen["file"].file,
                file_name=chosen["file"].name,
                format=chosen["format"],
                source_slug=form.source_slug,
                time_zone=chosen["time_zone"],
            ),
            version=_version(request),
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, TooLarge, Conflict) as refusal:
        form.add_refusal(refusal)
        return _log_refused(request, form)
    return _go(request)


def _log_refused(request: HttpRequest, form: LogForm) -> HttpResponse:
    return show(request, Asked(log=form), status=422)


@require_POST
def source(request: HttpRequest) -> HttpResponse:
    """Step 2 for a site whose usage is here already."""
    slug = request.POST.get("source", "")
    drafting.use_source(version=_version(request), source_slug=slug, at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def zone(request: HttpRequest) -> HttpResponse:
    """In which zone the log's times are; it is then read again."""
    form = ZoneForm(request.POST)
    if not form.is_valid():
        return show(request, Asked(zone=form), status=422)
    try:
        drafting.choose_zone(
            version=_version(request),
            time_zone=form.cleaned_data["time_zone"],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as refusal:
        form.add_refusal(refusal)
        return show(request, Asked(zone=form), status=422)
    return SeeOther(page_url())


@require_POST
def confirm(request: HttpRequest) -> HttpResponse:
    """The log is imported into its source."""
    drafting.confirm_log(version=_version(request), at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def again(request: HttpRequest) -> HttpResponse:
    """Another log."""
    drafting.remove_log(version=_version(request), at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def accounts(request: HttpRequest) -> HttpResponse:
    """Step 3: accounts that found no entry, each with the entry it is to count for."""
    names = (request.POST.getlist(f"account-{part}") for part in ("user", "group", "fqan", "entry"))
    decided = [
        {"user_pattern": user, "group_pattern": group, "fqan_pattern": fqan, "entry": entry}
        for user, group, fqan, entry in zip(*names, strict=False)
    ]
    try:
        drafting.decide_accounts(version=_version(request), decisions=decided, at=clock.now(), actor=actor_of(request))
    except Invalid as refusal:
        return show(request, Asked(accounts=refusal), status=422)
    return SeeOther(page_url() + "#accounts")


@require_POST
def publish(request: HttpRequest) -> HttpResponse:
    """Step 4: publish revision 1; the first snapshot follows by itself. `compare` publishes nothing."""
    actor = actor_of(request)
    beginning = get_beginning(actor=actor)
    if beginning is None:
        raise NotFound(_("No set-up to continue: send the scheduler’s tree first."))
    allowed = algorithms_for(has_inherit=bool(tree_of(beginning).inherit.any()))
    given = proposed_settings(beginning)
    form = FirstPolicyForm(request.POST, allowed=allowed, given=given, has_scheduler=has_scheduler(beginning))
    if form.is_valid() and "compare" in request.POST:
        return show(request, Asked(policy=form))
    if not form.is_valid():
        return show(request, Asked(policy=form), status=422)
    try:
        wanted = FirstPolicy(
            slug=form.slug,
            name=form.cleaned_data["name"],
            reason=_("First policy, from %(file)s.") % {"file": beginning.file_name},
            settings={"algorithm": form.settings.algorithm, "window": form.settings.window},
            scheduler=form.cleaned_data.get("scheduler", "").strip(),
        )
        made = publish_first_policy(version=_version(request), wanted=wanted, at=clock.now(), actor=actor)
    except (Invalid, Conflict) as refusal:
        if isinstance(refusal, Conflict) and not refusal.fields:  # not about what was typed
            raise
        form.add_refusal(refusal)
        return show(request, Asked(policy=form), status=422)
    messages.success(request, _("Revision 1 is active. Priorities are being computed; your scheduler keeps its own."))
    if made.scheduler is not None:
        return SeeOther(reverse("dashboard:scheduler", kwargs={"name": made.scheduler.name}))
    return SeeOther(reverse("dashboard:policy", kwargs={"policy": made.policy.slug}))


@require_POST
def give_up(request: HttpRequest) -> HttpResponse:
    """Begin from nothing; imported usage stays."""
    drafting.discard_draft(version=_version(request), at=clock.now(), actor=actor_of(request))
    messages.info(request, _("Discarded. Imported usage stays in its source."))
    return SeeOther(page_url())


def _refuse_too_large(request: HttpRequest, limit: int) -> None:
    """Before anything of the body is read: whether this person may send it, and whether it fits."""
    require_setup(actor_of(request))
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit + _FORM_ROOM:
        raise TooLarge(
            _("A file has at most %(size)s here: an administrator can import it by command.") % {"size": size(limit)}
        )
    request.upload_handlers = [TemporaryFileUploadHandler(request)]


def _version(request: HttpRequest) -> int:
    text = request.POST.get("version", "")
    return read_whole(text, 9) or 0


def _go(request: HttpRequest) -> HttpResponse:
    if not is_htmx(request):
        return SeeOther(page_url())
    response = HttpResponse(status=204)
    response["HX-Redirect"] = page_url()
    return response
