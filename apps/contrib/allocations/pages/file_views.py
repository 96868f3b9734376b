"""Page to import allocations of a file with a preview, and to download them as a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.allocations import bounds as of_allocations
from apps.contrib.allocations.exchange.file_formats import FILE_FORMATS, guess_format, read_file
from apps.contrib.allocations.exchange.plan import AllocationPlan, PlannedAllocation, plan_allocations
from apps.contrib.allocations.exchange.services import ImportOptions, import_allocations, list_exported
from apps.contrib.allocations.pages import presenters
from apps.contrib.allocations.pages.forms import period_text
from apps.contrib.allocations.pages.views import crumbs_of
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Stale, TooLarge, problem_sentence
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import Rights, Verb
from apps.policies.formats.decoding import text_of
from apps.policies.selectors import get_policy
from apps.web.shell.forms import FILE_ERRORS, RefusableForm, read_action, reason_field
from apps.web.shell.requests import SeeOther, actor_of

_MOST_SHOWN_CHANGES = 200
_ACTIONS = {
    "add": gettext_lazy("new"),
    "change": gettext_lazy("changed"),
    "withdraw": gettext_lazy("withdrawn"),
    "same": gettext_lazy("the same"),
}


class AllocationFileForm(RefusableForm):
    """A file, or its text. missing: whether allocations that it lacks stay or are withdrawn."""

    file = forms.FileField(label=gettext_lazy("File"), required=False, error_messages=FILE_ERRORS)
    text = forms.CharField(
        label=gettext_lazy("Or paste a table"),
        required=False,
        strip=False,
        max_length=of_allocations.FILE_TEXT,
        widget=forms.Textarea(attrs={"class": "input mono", "rows": 6, "spellcheck": "false"}),
    )
    missing = forms.ChoiceField(
        choices=[("keep", gettext_lazy("Keep them")), ("withdraw", gettext_lazy("Withdraw them"))],
        required=False,
        initial="keep",
    )
    reason = reason_field(LONGEST_ALLOCATION_REASON)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.fields["reason"].required = False
        self.fields["reason"].help_text = _("Of allocations that have none in the file.")

    def clean(self) -> dict[str, Any]:
        """Put the text of the file in place of the typed one."""
        cleaned = super().clean() or {}
        if (upload := cleaned.get("file")) is not None:
            if upload.size > of_allocations.FILE_TEXT:
                raise forms.ValidationError(_("That is too large"), code="large")
            try:
                cleaned["text"] = text_of(upload.read())
            except (Invalid, TooLarge) as refusal:
                raise forms.ValidationError(refusal.message, code="unreadable") from None
        if not cleaned.get("text", "").strip():
            raise forms.ValidationError(_("Choose a file, or paste a table."), code="required")
        return cleaned


@require_http_methods(["GET", "HEAD", "POST"])
def file(request: HttpRequest, policy: str) -> HttpResponse:
    """Upload or paste allocations; the preview shows what would change, and a second step imports it."""
    actor, now = actor_of(request), clock.now()
    policy_row = get_policy(slug=policy, actor=actor)
    if not actor.administers and not Rights(policy_row, actor, now).at(Verb.EDIT_SHARES):
        raise NotAllowed(_("Only managers of a group can import allocations."))
    if request.method != "POST":
        return _page(request, policy, AllocationFileForm(initial={"missing": "keep"}))
    form = AllocationFileForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, policy, form, status=422)
    text, withdraws = form.cleaned_data["text"], form.cleaned_data["missing"] == "withdraw"
    whole: dict[str, Any] = {"policy_slug": policy, "at": now, "actor": actor, "visibility": load_visibility}
    action = read_action(request)
    try:
        whole["file"] = read_file(guess_format(text), text.encode())
        plan = plan_allocations(**whole, withdraw_missing=withdraws)
    except (Invalid, TooLarge) as refusal:
        form.add_refusal(refusal)
        return _page(request, policy, form, status=422, text=text)
    if action.step == "import" and not plan.problems:
        options = ImportOptions(reason=form.cleaned_data["reason"], withdraw_missing=withdraws, tag=action.tag)
        try:
            done = import_allocations(**whole, options=options)
        except (Conflict, Stale, Invalid) as refusal:
            form.add_refusal(refusal)
        else:
            _add_message(request, done)
            return SeeOther(reverse("pages:allocations", kwargs={"policy": policy}))
    status = 422 if plan.problems or form.errors else 200
    return _page(request, policy, form, status=status, text=text, plan=plan)


@require_safe
def download(request: HttpRequest, policy: str, form: str) -> StreamingHttpResponse:
    """Allocations of the entries that the reader sees, as the import takes them."""
    if form not in FILE_FORMATS:
        raise NotFound("There is no such format.")
    rows = list_exported(policy_slug=policy, at=clock.now(), actor=actor_of(request), visibility=load_visibility)
    chosen = FILE_FORMATS[form]
    response = StreamingHttpResponse(chosen.write(rows), content_type=f"{chosen.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{policy}-allocations.{form}"'
    return response


def _add_message(request: HttpRequest, done: AllocationPlan) -> None:
    n = len(done.changes)
    if not n:
        messages.info(request, _("Nothing to change: the policy has all allocations of the file."))
        return
    messages.success(request, ngettext("%(n)s allocation imported.", "%(n)s allocations imported.", n) % {"n": n})


def _page(
    request: HttpRequest,
    slug: str,
    form: AllocationFileForm,
    *,
    status: int = 200,
    text: str = "",
    plan: AllocationPlan | None = None,
) -> HttpResponse:
    policy = get_policy(slug=slug, actor=actor_of(request))
    counts = plan.counts if plan else {}
    context = {
        "policy": slug,
        "policy_name": policy.name,
        "form": form,
        "text": text,
        "plan": plan,
        "rows": [_row(each) for each in plan.changes[:_MOST_SHOWN_CHANGES]] if plan else [],
        "n_more": max(len(plan.changes) - _MOST_SHOWN_CHANGES, 0) if plan else 0,
        "counts": [(key, _ACTIONS[key], n) for key, n in counts.items() if n],
        "problems": [_problem(each) for each in plan.problems[:_MOST_SHOWN_CHANGES]] if plan else [],
        "n_problems": len(plan.problems) if plan else 0,
        "withdraws": form["missing"].value() == "withdraw",
        "downloads": [
            (name.upper(), reverse("pages:allocation-file-download", kwargs={"policy": slug, "form": name}))
            for name in FILE_FORMATS
        ],
        "crumbs": [*crumbs_of(slug, policy.name), {"label": _("Import and export")}],
    }
    return render(request, "contrib/allocations/file.html", context, status=status)


def _row(row: PlannedAllocation) -> dict[str, Any]:
    """One allocation as the preview shows it, with the amount before."""
    has_other_days = row.starts_on_before is not None and (
        (row.starts_on_before, row.ends_on_before) != (row.starts_on, row.ends_on)
    )
    before = (
        period_text(Period(row.starts_on_before, row.ends_on_before))
        if has_other_days and row.starts_on_before is not None and row.ends_on_before is not None
        else ""
    )
    return {
        "action": row.action,
        "label": _ACTIONS[row.action],
        "path": row.path,
        "place": row.place,
        "amount": presenters.quantity(row.amount, row.unit),
        "before": ""
        if row.amount_before in (None, row.amount)
        else presenters.quantity(row.amount_before or 0.0, row.unit),
        "period": period_text(Period(row.starts_on, row.ends_on)),
        "period_before": before,
    }


def _problem(problem: FieldProblem) -> tuple[str, str]:
    return problem.where, problem_sentence(problem.message)
