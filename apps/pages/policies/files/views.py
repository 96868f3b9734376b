"""Pages to export a policy as a file, to import one with a preview of its changes, and to compare with a dump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, TooLarge, status_of
from apps.pages.policies.files.forms import AUTO, AgainstForm, PolicyFileForm
from apps.policies.files.exports import Export, export_policy
from apps.policies.files.import_export import FileImport, compare_change_set, import_policy
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import get_format, guess_format, list_formats
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import publish_change_set, withdraw_change_set
from apps.policies.tree.difference import CODES, Comparison, EntryChange
from apps.priorities.sentences import numbers
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of
from apps.web.unnamed_uploads import UnnamedFileUploadHandler

MOST_UPLOAD_BYTES = 64 * 2**20
_MOST_ENTRIES_CHECKED = 20_000  # entries of a policy up to which the page lists what each format leaves out
_FORM_BYTES = 100_000  # allowance for the other fields and boundaries of the request

# What happens to an entry of the list, by the stable code of the change.
_CHANGE_LABELS = {
    "added": gettext_lazy("added"),
    "archived": gettext_lazy("archived"),
    "moved": gettext_lazy("moved"),
    "renamed": gettext_lazy("renamed"),
    "shares": gettext_lazy("shares changed"),
    "other": gettext_lazy("other fields changed"),
    "target_only": gettext_lazy("target changed indirectly"),
}


@csrf_exempt  # `_files` checks the token in the form, after the size of the request was checked
@require_http_methods(["GET", "HEAD", "POST"])
def files(request: HttpRequest, policy: str) -> HttpResponse:
    """List export formats, and import a file as a draft; for actors who see the whole policy."""
    actor = actor_of(request)
    export_policy(policy_slug=policy, format="json", at=clock.now(), actor=actor)
    if request.method == "POST":
        _prepare_upload(request)
    return _files(request, policy)


def _prepare_upload(request: HttpRequest) -> None:
    """Reject a request that is too large before reading it; stream the file to disk instead of into memory."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_UPLOAD_BYTES + _FORM_BYTES:
        raise TooLarge(_("A file has at most %(n)s MB here: an administrator can import it by command.") % {"n": 64})
    request.upload_handlers = [UnnamedFileUploadHandler(request)]


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
            file=FileImport(
                policy_slug=policy,
                format=_format(form.cleaned_data["format"], content),
                content=content,
                keep_missing=form.cleaned_data["missing"] == "keep",
                follow=form.cleaned_data["shares"] == "published",
            ),
            reason=_("From the file %(name)s.") % {"name": form.cleaned_data["file"].name[:200]},
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, TooLarge) as refusal:
        return _page(request, policy, form, status=422, refusal=refusal)
    if done.plan.ignored:
        words = ", ".join(done.plan.ignored)
        messages.info(request, _("Ignored, as policies don’t have it: %(what)s.") % {"what": words})
    if done.change_set is None:
        messages.info(request, _("Nothing to change: policy and file are identical."))
        return SeeOther(reverse("pages:policy-files", kwargs={"policy": policy}))
    return SeeOther(_decision_url(policy, done.change_set.pk))


@require_http_methods(["GET", "HEAD", "POST"])
def decide(request: HttpRequest, policy: str, change_set: int) -> HttpResponse:
    """Show what the draft of an imported file would change; POST publishes or discards it."""
    actor, now = actor_of(request), clock.now()
    reviewed, comparison = compare_change_set(id=change_set, at=now, actor=actor)
    if reviewed.policy.slug != policy:
        return SeeOther(_decision_url(reviewed.policy.slug, change_set))
    if request.method != "POST":
        return _decision(request, reviewed, comparison)
    action = read_action(request)
    row: dict[str, Any] = {"id": reviewed.pk, "version": action.version, "at": now, "actor": actor}
    try:
        if action.step == "discard":
            withdraw_change_set(**row)
            messages.success(request, _("Withdrawn; nothing was changed."))
            return SeeOther(reverse("pages:policy-files", kwargs={"policy": policy}))
        revision = publish_change_set(**row, reason=action.reason)
    except (Invalid, Conflict) as refusal:
        return _decision(request, reviewed, comparison, status=status_of(refusal), refusal=refusal)
    add_published_message(request, revision, has_undo=False)
    return SeeOther(reverse("pages:policy", kwargs={"policy": policy}))


@require_safe
def download(request: HttpRequest, policy: str, format: str) -> StreamingHttpResponse:
    """The active policy as a file; ?cluster= names Slurm's cluster in it."""
    cluster = request.GET.get("cluster", "")
    return _as_file(
        export_policy(policy_slug=policy, format=format, cluster=cluster, at=clock.now(), actor=actor_of(request))
    )


@csrf_exempt  # for the reason given at `files`
@require_http_methods(["GET", "HEAD", "POST"])
def against(request: HttpRequest, policy: str) -> HttpResponse | StreamingHttpResponse:
    """Compare the policy with a dump: show the differences, or download the file that removes them. Stores nothing."""
    export_policy(policy_slug=policy, format="json", at=clock.now(), actor=actor_of(request))
    if request.method != "POST":
        return SeeOther(reverse("pages:policy-files", kwargs={"policy": policy}))
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
    if read_action(request).step == "download":
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
        left_out = export.dropped if len(export.tree) <= _MOST_ENTRIES_CHECKED else []
        exports.append(
            {
                "format": each,
                "carries": ", ".join(map(_, each.carries)),
                "dropped": left_out,
                "lacks_cluster": export.lacks_cluster,
            }
        )
    context = {
        "policy": policy,
        "form": form,
        "refusal": refusal,
        "exports": exports,
        "against": {"form": AgainstForm(), **(against or {})},
        "limit": MOST_UPLOAD_BYTES // 2**20,
        "crumbs": _crumbs(policy.slug, policy.name, _("Policy files")),
    }
    return render(request, "pages/policies/files/files.html", context, status=status)


def _decision(
    request: HttpRequest,
    change_set: ChangeSet,
    comparison: Comparison,
    *,
    status: int = 200,
    refusal: DomainError | None = None,
) -> HttpResponse:
    policy = change_set.policy
    context = {
        "policy": policy,
        "change_set": change_set,
        "comparison": comparison,
        "is_open": change_set.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        "counts": _counts_text(comparison),
        "entries": [_line(change) for change in comparison.entries],
        "n_more": comparison.n_entries - len(comparison.entries),
        "reason": request.POST.get("reason", change_set.reason),
        "lacks_reason": refusal is not None and any(each.where == "reason" for each in refusal.fields),
        "refusal": refusal,
        "crumbs": [
            *_crumbs(policy.slug, policy.name),
            {"label": _("Policy files"), "url": reverse("pages:policy-files", args=[policy.slug])},
            {"label": _("Change set %(n)s") % {"n": change_set.pk}},
        ],
    }
    return render(request, "pages/policies/files/decide.html", context, status=status)


def _counts_text(comparison: Comparison) -> str:
    """Numbers of entries by kind of change, such as “3 added, 1 moved”; empty if only settings change."""
    counted = [(CODES[what], n) for what, n in comparison.counts() if n]
    return ", ".join(_count_text(code, n) % {"n": numbers.count(n)} for code, n in counted)


def _count_text(code: str, n: int) -> str:
    return {
        "added": ngettext("%(n)s added", "%(n)s added", n),
        "archived": ngettext("%(n)s archived", "%(n)s archived", n),
        "moved": ngettext("%(n)s moved", "%(n)s moved", n),
        "renamed": ngettext("%(n)s renamed", "%(n)s renamed", n),
        "shares": ngettext("%(n)s with other shares", "%(n)s with other shares", n),
        "other": ngettext("%(n)s with other changes", "%(n)s with other changes", n),
        "target_only": ngettext("%(n)s target changed indirectly", "%(n)s targets changed indirectly", n),
    }[code]


def _line(change: EntryChange) -> dict[str, str]:
    """Changes of one entry, its target before and after, and whether it gains or loses."""
    before, after = change.before, change.after
    shares = numbers.change_shares(before, after)
    if before == after:
        kind = "same"
    elif before is None:
        kind = "new"
    elif after is None:
        kind = "gone"
    else:
        kind = "more" if after > before else "less"
    what = ", ".join(str(_CHANGE_LABELS[CODES[word]]) for word in change.changes)
    return {
        "path": change.path,
        "what": what,
        "before": shares.before,
        "after": shares.after,
        "kind": kind,
    }


def _format(name: str, content: bytes) -> str:
    if name != AUTO:
        return get_format(name).name
    guess = guess_format(text_of(content))
    if guess is None:
        raise Invalid(_("The format was not recognised: choose it."))
    return guess.name


def _decision_url(policy: str, change_set: int) -> str:
    return reverse("pages:policy-file", kwargs={"policy": policy, "change_set": change_set})


def _crumbs(slug: str, name: str, *more: str) -> list[dict[str, Any]]:
    tree = {"label": name, "url": reverse("pages:policy", kwargs={"policy": slug})}
    return [tree, *({"label": label} for label in more)]
