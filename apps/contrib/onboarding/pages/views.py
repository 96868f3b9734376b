"""Set-up of a first policy from a scheduler's tree and accounting log, in four forms; it can be left and resumed."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe

from apps.contrib.onboarding import first_policy_draft as drafting
from apps.contrib.onboarding.first_policy_draft import (
    LogState,
    get_first_policy_draft,
    log_state,
    proposed_settings,
    require_setup,
    tree_of,
)
from apps.contrib.onboarding.pages.forms import (
    FirstPolicyForm,
    LogForm,
    RestSiteForm,
    TreeForm,
    ZoneForm,
    algorithms_for,
)
from apps.contrib.onboarding.pages.steps import Submitted, collects_here, log_context, show
from apps.contrib.onboarding.rest_site import begin_by_rest
from apps.contrib.onboarding.shadow_setup import FirstPolicy, kind_of, publish_first_policy
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from apps.pages.sources.imports.reports import size
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment, is_htmx
from apps.web.unnamed_uploads import UnnamedFileUploadHandler

MOST_TREE_BYTES = 64 * 2**20
_FORM_BYTES = 1_000_000  # allowance for the other fields and boundaries of the request


def page_url(**_kwargs: object) -> str:
    return reverse("pages:setup")


@require_safe
def setup(request: HttpRequest) -> HttpResponse:
    """Current step of the set-up, which all administrators share."""
    return show(request)


@fragment(page_url)
@require_safe
def progress(request: HttpRequest) -> HttpResponse:
    """Fragment that is polled while the log is read; afterwards it makes htmx reload the whole page."""
    beginning = get_first_policy_draft(actor=actor_of(request))
    if beginning is None or log_state(beginning) not in (LogState.READING, LogState.IMPORTING):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = page_url()
        return response
    return render(request, "contrib/onboarding/_progress.html", log_context(request, beginning))


@csrf_exempt  # `_tree` checks the token in the form, after the size of the request was checked
@require_POST
def tree(request: HttpRequest) -> HttpResponse:
    """Step 1: read the tree, or reject it with a list of all wrong lines."""
    _refuse_too_large(request, MOST_TREE_BYTES)
    return _tree(request)


@csrf_protect
def _tree(request: HttpRequest) -> HttpResponse:
    form = TreeForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(request, Submitted(tree=form), status=422)
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
        return show(request, Submitted(tree=form, refusal=refusal), status=422)
    return SeeOther(page_url())


@require_POST
def here(request: HttpRequest) -> HttpResponse:
    """Steps 1 and 2 with Slurm's commands on this host: the button `what` is tree or log."""
    common: dict[str, Any] = {"at": clock.now(), "actor": actor_of(request)}
    action = read_action(request, "what")
    is_log = action.step == "log"
    try:
        if is_log:
            slug = slugify(request.POST.get("source_name", "")) or "slurm"
            drafting.send_log_here(version=action.version, source_slug=slug[:64], **common)
        else:
            drafting.read_tree_here(**common)
    except (Invalid, TooLarge, Unavailable, Conflict) as refusal:
        return show(request, Submitted(tree=None if is_log else TreeForm(), refusal=refusal), status=422)
    return SeeOther(page_url())


@require_POST
def slurmrestd(request: HttpRequest) -> HttpResponse:
    """Steps 1 and 2 with slurmrestd: the tree is read now, and the usage source that is made collects the log."""
    require_setup(actor_of(request))
    form = RestSiteForm(request.POST)
    if not form.is_valid():
        return show(request, Submitted(tree=TreeForm(), rest_site=form), status=422)
    try:
        begin_by_rest(form.site, at=clock.now(), actor=actor_of(request))
    except (Invalid, TooLarge, Unavailable, Conflict) as refusal:
        form.add_refusal(refusal)
        return show(request, Submitted(tree=TreeForm(), rest_site=form), status=422)
    return SeeOther(page_url())


@csrf_exempt  # `_log` checks the token in the form, after the upload was directed to disk
@require_POST
def log(request: HttpRequest) -> HttpResponse:
    """Step 2: read the accounting log in a dry run, which imports nothing."""
    _refuse_too_large(request, int(settings.FAIRSHARE_UPLOAD_BYTES))
    return _log(request)


@csrf_protect
def _log(request: HttpRequest) -> HttpResponse:
    form = LogForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(request, Submitted(log=form), status=422)
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
            version=read_action(request).version,
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, TooLarge, Conflict) as refusal:
        form.add_refusal(refusal)
        return show(request, Submitted(log=form), status=422)
    if not is_htmx(request):
        return SeeOther(page_url())
    response = HttpResponse(status=204)
    response["HX-Redirect"] = page_url()
    return response


@require_POST
def source(request: HttpRequest) -> HttpResponse:
    """Step 2 with a usage source that exists already."""
    slug = request.POST.get("source", "")
    drafting.use_source(version=read_action(request).version, source_slug=slug, at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def zone(request: HttpRequest) -> HttpResponse:
    """Set the time zone of the log's times, and read the log again."""
    form = ZoneForm(request.POST)
    if not form.is_valid():
        return show(request, Submitted(zone=form), status=422)
    try:
        drafting.choose_zone(
            version=read_action(request).version,
            time_zone=form.cleaned_data["time_zone"],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as refusal:
        form.add_refusal(refusal)
        return show(request, Submitted(zone=form), status=422)
    return SeeOther(page_url())


@require_POST
def confirm(request: HttpRequest) -> HttpResponse:
    """Import the log into its source."""
    drafting.confirm_log(version=read_action(request).version, at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def again(request: HttpRequest) -> HttpResponse:
    """Discard the log, so that another one can be sent."""
    drafting.remove_log(version=read_action(request).version, at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url())


@require_POST
def accounts(request: HttpRequest) -> HttpResponse:
    """Step 3: map unmapped accounts, each to the chosen entry."""
    names = (request.POST.getlist(f"account-{part}") for part in ("user", "group", "fqan", "entry"))
    decided = [
        {"user_pattern": user, "group_pattern": group, "fqan_pattern": fqan, "entry": entry}
        for user, group, fqan, entry in zip(*names, strict=False)
    ]
    try:
        drafting.decide_accounts(
            version=read_action(request).version, decisions=decided, at=clock.now(), actor=actor_of(request)
        )
    except Invalid as refusal:
        return show(request, Submitted(accounts=refusal), status=422)
    return SeeOther(page_url() + "#accounts")


@require_POST
def publish(request: HttpRequest) -> HttpResponse:
    """Step 4: publish revision 1, which triggers the first recompute. `compare` only previews it."""
    actor = actor_of(request)
    beginning = get_first_policy_draft(actor=actor)
    if beginning is None:
        raise NotFound(_("No set-up to continue: send the scheduler’s tree first."))
    allowed = algorithms_for(has_inherit=bool(tree_of(beginning).inherit.any()))
    policy_settings = proposed_settings(beginning)
    form = FirstPolicyForm(
        request.POST,
        allowed=allowed,
        policy_settings=policy_settings,
        has_scheduler=kind_of(beginning) is not None,
        can_collect=collects_here(beginning),
    )
    if form.is_valid() and "compare" in request.POST:
        return show(request, Submitted(policy=form))
    if not form.is_valid():
        return show(request, Submitted(policy=form), status=422)
    try:
        wanted = FirstPolicy(
            slug=form.slug,
            name=form.cleaned_data["name"],
            reason=_("First policy, from %(file)s.") % {"file": beginning.file_name},
            settings=form.settings.to_json(),
            scheduler=form.cleaned_data.get("scheduler", "").strip(),
            collects=bool(form.cleaned_data.get("collects")),
        )
        made = publish_first_policy(version=read_action(request).version, wanted=wanted, at=clock.now(), actor=actor)
    except (Invalid, Conflict) as refusal:
        if isinstance(refusal, Conflict) and not refusal.fields:  # about the state of the set-up, not a field
            raise
        form.add_refusal(refusal)
        return show(request, Submitted(policy=form), status=422)
    messages.success(request, _("Revision 1 is active. Priorities are being computed; your scheduler keeps its own."))
    if made.scheduler is not None:
        return SeeOther(reverse("pages:scheduler", kwargs={"name": made.scheduler.name}))
    return SeeOther(reverse("pages:policy", kwargs={"policy": made.policy.slug}))


@require_POST
def discard(request: HttpRequest) -> HttpResponse:
    """Discard the set-up; imported usage stays."""
    drafting.discard_draft(version=read_action(request).version, at=clock.now(), actor=actor_of(request))
    messages.info(request, _("Discarded. Imported usage stays in its source."))
    return SeeOther(page_url())


def _refuse_too_large(request: HttpRequest, limit: int) -> None:
    """Check the permission and the size of the request before its body is read."""
    require_setup(actor_of(request))
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit + _FORM_BYTES:
        raise TooLarge(
            _("A file has at most %(size)s here: an administrator can import it by command.") % {"size": size(limit)}
        )
    request.upload_handlers = [UnnamedFileUploadHandler(request)]
