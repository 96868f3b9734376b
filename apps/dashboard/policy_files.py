"""A policy out of a file and into one: what would this file change, and shall it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, TooLarge, status_of
from apps.core.typed_numbers import read_whole
from apps.dashboard.shell import presentation
from apps.dashboard.shell.publishing import add_published_message
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.policies.files.exports import Export, export_policy
from apps.policies.files.import_export import compare_change_set, import_policy
from apps.policies.formats.registry import get_format, guess_format, list_formats, text_of
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import publish_change_set, withdraw_change_set
from apps.policies.tree.difference import Comparison, EntryChange

# --- Forms ------------------------------------------------------------------------------------------------------------
AUTO = "auto"


class AgainstForm(forms.Form):
    """A file with the state of now, and what is written against it. cluster: "" is that of the last import."""

    file = forms.FileField(
        label=gettext_lazy("Dump of now"),
        error_messages={"required": gettext_lazy("Choose a file"), "empty": gettext_lazy("This file is empty.")},
    )
    format = forms.ChoiceField(label=gettext_lazy("Format"), widget=forms.Select(attrs={"class": "input"}))
    cluster = forms.CharField(
        label=gettext_lazy("Cluster"), required=False, max_length=128, widget=forms.TextInput(attrs={"class": "input"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.auto_id = "against-%s"  # the form of an import is on the same page
        choices = [(each.name, each.label) for each in list_formats() if each.against]
        self.fields["format"].widget.choices = choices
        self.fields["format"].choices = choices  # type: ignore[attr-defined]


class PolicyFileForm(forms.Form):
    """`missing` is what becomes of entries that the file leaves out."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        error_messages={"required": gettext_lazy("Choose a file"), "empty": gettext_lazy("This file is empty.")},
    )
    format = forms.ChoiceField(label=gettext_lazy("Format"), widget=forms.Select(attrs={"class": "input"}))
    missing = forms.ChoiceField(
        choices=[("archive", gettext_lazy("Archive them")), ("keep", gettext_lazy("Keep them"))], initial="archive"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [
            (AUTO, str(gettext_lazy("Detect automatically"))),
            *((each.name, each.label) for each in list_formats()),
        ]
        self.fields["format"].widget.choices = choices
        self.fields["format"].choices = choices  # type: ignore[attr-defined]


# --- Views ------------------------------------------------------------------------------------------------------------
MOST_BYTES = 64 * 2**20
_MOST_LOOKED_THROUGH = 20_000  # entries of which a page lists what each format leaves out
_FORM_ROOM = 100_000  # what the fields and boundaries around a file may take


@csrf_exempt  # the token in the form is checked by `_files`, after it is clear that the file fits
@require_http_methods(["GET", "HEAD", "POST"])
def files(request: HttpRequest, policy: str) -> HttpResponse:
    """For who sees the whole policy. A file becomes a draft, on a page of its own; nothing is in force by that."""
    actor = actor_of(request)
    export_policy(policy_slug=policy, format="json", at=clock.now(), actor=actor)
    if request.method == "POST":
        _prepare_upload(request)
    return _files(request, policy)


def _prepare_upload(request: HttpRequest) -> None:
    """A file that doesn't fit isn't read; one that does isn't kept in memory."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_BYTES + _FORM_ROOM:
        raise TooLarge(_("A file has at most %(n)s MB here: an administrator can import it by command.") % {"n": 64})
    request.upload_handlers = [TemporaryFileUploadHandler(request)]


@csrf_protect
def _files(request: HttpRequest, policy: str) -> HttpResponse:
    if request.method != "POST":
        return _page(request, policy, PolicyFileForm())
    form = PolicyFileForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, policy, form, status=422)
    try:
        content = form.cleaned_data["file"].read()
        done = import_policy(
            policy_slug=policy,
            format=_format(form.cleaned_data["format"], content),
            content=content,
            keep_missing=form.cleaned_data["missing"] == "keep",
            reason=_("From the file %(name)s.") % {"name": form.cleaned_data["file"].name[:200]},
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, TooLarge) as refusal:
        return _page(request, policy, form, status=422, refusal=refusal)
    if done.change_set is None:
        messages.info(request, _("Nothing to change: policy and file are identical."))
        return SeeOther(reverse("dashboard:policy-files", kwargs={"policy": policy}))
    if done.plan.ignored:
        words = ", ".join(done.plan.ignored)
        messages.info(request, _("Ignored, as policies don’t have it: %(what)s.") % {"what": words})
    return SeeOther(_decision_url(policy, done.change_set.pk))


@require_http_methods(["GET", "HEAD", "POST"])
def decide(request: HttpRequest, policy: str, change_set: int) -> HttpResponse:
    """What the draft of a file would change; publish it, or give it up."""
    actor, now = actor_of(request), clock.now()
    found, comparison = compare_change_set(id=change_set, at=now, actor=actor)
    if found.policy.slug != policy:
        return SeeOther(_decision_url(found.policy.slug, change_set))
    if request.method != "POST":
        return _decision(request, found, comparison)
    version = _version(request)
    try:
        if request.POST.get("step") == "discard":
            withdraw_change_set(id=found.pk, version=version, at=now, actor=actor)
            messages.success(request, _("Withdrawn; nothing was changed."))
            return SeeOther(reverse("dashboard:policy-files", kwargs={"policy": policy}))
        reason = request.POST.get("reason", "")
        revision = publish_change_set(id=found.pk, version=version, reason=reason, at=now, actor=actor)
    except (Invalid, Conflict) as refusal:
        status = status_of(refusal)
        return _decision(request, found, comparison, status=status, refusal=refusal)
    add_published_message(request, revision)
    return SeeOther(reverse("dashboard:policy", kwargs={"policy": policy}))


@require_safe
def download(request: HttpRequest, policy: str, format: str) -> StreamingHttpResponse:
    """The policy in force as a file."""
    return _as_file(export_policy(policy_slug=policy, format=format, at=clock.now(), actor=actor_of(request)))


@csrf_exempt  # as of `files`
@require_http_methods(["GET", "HEAD", "POST"])
def against(request: HttpRequest, policy: str) -> HttpResponse | StreamingHttpResponse:
    """The policy against a dump of now: how they differ, and then the file. Nothing is stored."""
    export_policy(policy_slug=policy, format="json", at=clock.now(), actor=actor_of(request))
    if request.method != "POST":
        return SeeOther(reverse("dashboard:policy-files", kwargs={"policy": policy}))
    _prepare_upload(request)
    return _against(request, policy)


@csrf_protect
def _against(request: HttpRequest, policy: str) -> HttpResponse | StreamingHttpResponse:
    form = AgainstForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, policy, PolicyFileForm(), status=422, against={"form": form})
    try:
        export = export_policy(
            policy_slug=policy,
            format=form.cleaned_data["format"],
            against=form.cleaned_data["file"].read(),
            cluster=form.cleaned_data["cluster"],
            at=clock.now(),
            actor=actor_of(request),
        )
        difference = export.difference
    except (Invalid, TooLarge) as refusal:
        return _page(request, policy, PolicyFileForm(), status=422, against={"form": form, "refusal": refusal})
    if request.POST.get("step") == "download":
        return _as_file(export)
    return _page(request, policy, PolicyFileForm(), against={"form": form, "difference": difference})


def _as_file(export: Export) -> StreamingHttpResponse:
    response = StreamingHttpResponse(export.pieces(), content_type=f"{export.format.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{export.file_name}"'
    return response


def _page(
    request: HttpRequest,
    slug: str,
    form: PolicyFileForm,
    *,
    status: int = 200,
    refusal: DomainError | None = None,
    against: Mapping[str, Any] | None = None,
) -> HttpResponse:
    actor = actor_of(request)
    policy = get_policy(slug=slug, actor=actor)
    exports = []
    for each in list_formats():
        export = export_policy(policy_slug=slug, format=each.name, at=clock.now(), actor=actor)
        left_out = export.dropped if len(export.tree) <= _MOST_LOOKED_THROUGH else []
        exports.append({"format": each, "carries": ", ".join(each.carries), "dropped": left_out})
    context = {
        "policy": policy,
        "form": form,
        "refusal": refusal,
        "exports": exports,
        "against": {"form": AgainstForm(), **(against or {})},
        "limit": MOST_BYTES // 2**20,
        "crumbs": _crumbs(policy.slug, policy.name, _("Import and export")),
    }
    return render(request, "dashboard/policy_files/files.html", context, status=status)


def _decision(
    request: HttpRequest,
    found: ChangeSet,
    comparison: Comparison,
    *,
    status: int = 200,
    refusal: DomainError | None = None,
) -> HttpResponse:
    policy = found.policy
    context = {
        "policy": policy,
        "change_set": found,
        "comparison": comparison,
        "is_open": found.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        "counts": [(_(what), n) for what, n in comparison.counts() if n],
        "entries": [_line(change) for change in comparison.entries],
        "n_more": comparison.n_entries - len(comparison.entries),
        "reason": request.POST.get("reason", found.reason),
        "refusal": refusal,
        "crumbs": [
            *_crumbs(policy.slug, policy.name),
            {"label": _("Import and export"), "url": reverse("dashboard:policy-files", args=[policy.slug])},
            {"label": _("Change set %(n)s") % {"n": found.pk}},
        ],
    }
    return render(request, "dashboard/policy_files/decide.html", context, status=status)


def _line(change: EntryChange) -> dict[str, str]:
    """What happens to the entry, and its target; whether that gains or loses is in words, beside the numbers."""
    before, after = change.before, change.after
    if before == after:
        verdict, kind = "", "same"
    elif before is None:
        verdict, kind = _("new"), "new"
    elif after is None:
        verdict, kind = _("none"), "gone"
    else:
        verdict, kind = (_("more"), "more") if after > before else (_("less"), "less")
    what = ", ".join(_(word) for word in change.changes)
    return {
        "path": change.path,
        "what": what,
        "before": _percent(before),
        "after": _percent(after),
        "verdict": verdict,
        "kind": kind,
    }


def _percent(value: float | None) -> str:
    return "–" if value is None else str(presentation.percent(value))


def _format(name: str, content: bytes) -> str:
    if name != AUTO:
        return get_format(name).name
    found = guess_format(text_of(content))
    if found is None:
        raise Invalid(_("The format was not recognised: choose it."))
    return found.name


def _version(request: HttpRequest) -> int:
    text = request.POST.get("version", "")
    return read_whole(text, 9) or 0


def _decision_url(policy: str, change_set: int) -> str:
    return reverse("dashboard:policy-file", kwargs={"policy": policy, "change_set": change_set})


def _crumbs(slug: str, name: str, *more: str) -> list[dict[str, Any]]:
    tree = {"label": name, "url": reverse("dashboard:policy", kwargs={"policy": slug})}
    return [tree, *({"label": label} for label in more)]
