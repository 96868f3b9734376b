"""Pages for larger edits of a draft: a table pasted from a spreadsheet, and the settings of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid, Stale, TooLarge, problem_sentence, status_of
from apps.core.typed_numbers import read_whole
from apps.pages.changes.drafts import forms, pages
from apps.pages.changes.drafts import presenters as draft_text
from apps.pages.changes.drafts.edit_views import unconditional, version_of
from apps.pages.changes.drafts.pages import draft_url
from apps.policies.changesets import drafts
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.files.import_export import PastePlan, plan_paste
from apps.policies.operations.apply import Operation
from apps.policies.services import change_settings
from apps.policies.settings import RESOURCES
from apps.priorities.selectors.class_factors import factor_name, unmatched_class_factors
from apps.priorities.selectors.draft import DraftView
from apps.web.shell import presentation
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of

_SHOWN = 200
SAMPLE = "path\tshares\n/physics\t30\n/physics/alice\t2\n/physics/bob\tinherit\n"


@require_http_methods(["GET", "HEAD", "POST"])
def paste(request: HttpRequest, change_set: int) -> HttpResponse:
    """Preview the changes of a pasted table line by line, then add all of them to the draft, or none."""
    view = pages.open_view(request, change_set)
    if request.method != "POST":
        return _show_paste(request, view)
    version, text = version_of(request), request.POST.get("table", "")
    if version is None:
        return unconditional(request)
    try:
        plan = plan_paste(view.draft, text, at=clock.now(), actor=actor_of(request))
        if read_action(request).step != "apply" or not plan.operations:
            return _show_paste(request, view, text=text, plan=plan)
        drafts.add_operations(
            id=change_set, version=version, operations=plan.operations, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, TooLarge, Stale, Conflict) as error:
        status = status_of(error)
        return _show_paste(request, view, text=text, status=status, error=error)
    n = len(plan.operations)
    messages.success(request, ngettext("%(n)s edit from the table.", "%(n)s edits from the table.", n) % {"n": n})
    return SeeOther(f"{draft_url(change_set)}?pasted={n}")


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, change_set: int) -> HttpResponse:
    """Change the settings of the policy as an edit of the draft."""
    view = pages.open_view(request, change_set)
    if request.method != "POST":
        return _show_settings(request, view, forms.typed(view.outcome.settings))
    version = version_of(request)
    if version is None:
        return unconditional(request)
    try:
        changed = forms.read_settings(request.POST, view.outcome.settings)
        if not changed:
            raise Invalid(_("The draft has these settings already."))
        drafts.add_operations(
            id=change_set,
            version=version,
            operations=[{"op": "set_policy", "settings": changed}],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Stale, Conflict) as error:
        status = status_of(error)
        return _show_settings(request, view, request.POST, status=status, error=error)
    messages.success(request, _("Added to the draft."))
    return SeeOther(draft_url(change_set))


def add_to_draft(request: HttpRequest, policy: str, changed: Mapping[str, Any], reason: str) -> HttpResponse:
    """Add a change of settings to the actor's draft of the policy, which is created if there is none."""
    actor, at = actor_of(request), clock.now()
    found = drafts.find_draft_of(policy_slug=policy, at=at, actor=actor)
    draft = found or drafts.open_draft(policy_slug=policy, reason=reason, at=at, actor=actor)
    operation: Operation = {"op": "set_policy", "settings": dict(changed)}
    drafts.add_operations(id=draft.pk, version=draft.version, operations=[operation], at=at, actor=actor)
    messages.success(request, _("Added to the draft."))
    return SeeOther(draft_url(draft.pk))


def _show_paste(
    request: HttpRequest,
    view: DraftView,
    *,
    text: str = "",
    plan: PastePlan | None = None,
    status: int = 200,
    error: Invalid | TooLarge | Stale | Conflict | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        **_around(view, _("Paste a table")),
        "text": text,
        "plan": plan,
        "sample": SAMPLE,
        "error": error,
        "problems": [_problem_row(each.where, each.message) for each in error.fields] if error else [],
        "n_operations": len(plan.operations) if plan else 0,
        "preview": [],
    }
    if plan is not None and plan.outcome is not None:
        context["preview"] = _preview(view, plan)
        context["n_left_out"] = max(len(plan.operations) - len(context["preview"]), 0)
    return render(request, "pages/changes/drafts/paste.html", context, status=status)


def _problem_row(where: str, message: str) -> dict[str, str]:
    return {"where": where.replace("operations", _("Edit")), "message": problem_sentence(message)}


def _preview(view: DraftView, plan: PastePlan) -> list[dict[str, Any]]:
    """Rows of the first edits of the table: the edit in words, and the entry's target before and after."""
    assert plan.outcome is not None, "callers check that the plan has an outcome"  # noqa: S101 - an invariant
    after = DraftView(view.draft, view.actor, view.at, plan.outcome)
    found = []
    for operation in plan.operations[:_SHOWN]:
        uid = operation.get("uid") or operation.get("entry")
        node = after.tree.get(pages.uid_of(str(uid))) if uid else None
        line = {
            "words": draft_text.words_of(operation, after.tree),
            "path": "",
            "target": "",
            "before": "",
            "op": operation["op"],
        }
        line["css"], line["icon"] = draft_text.ICONS.get(operation["op"], ("chg", "pencil"))
        if node is not None and after.sees(node):
            row = after.row(node, position=(1, 1))
            line["path"] = after.tree.path(node)
            line["target"] = presentation.percent(row.target)
            line["before"] = (
                presentation.percent(view.tree.target(old)) if (old := view.tree.get(node.uid)) else _("none")
            )
        found.append(line)
    return found


def _show_settings(
    request: HttpRequest,
    view: DraftView,
    typed: Mapping[str, Any],
    *,
    status: int = 200,
    error: Invalid | Stale | Conflict | None = None,
) -> HttpResponse:
    errors = {_field_of(each.where): each.message for each in reversed(error.fields)} if error else {}
    labels = {
        "cpu_s": _("Core-seconds"),
        "gpu_s": _("GPU-seconds"),
        "mem_gb_s": _("GB-seconds"),
        "node_s": _("Node-seconds"),
        "billing": _("Billing units"),
    }
    slug = view.policy.slug
    context = {
        **_around(view, _("Settings")),
        "typed": typed,
        "error": error,
        "errors": errors,
        "weights": [
            {
                "name": f"weight_{name}",
                "label": labels[name],
                "value": typed.get(f"weight_{name}", ""),
                "error": errors.get(f"weight_{name}", ""),
            }
            for name in RESOURCES
        ],
        "approaches": forms.approaches(),
        "unmatched": [factor_name(one) for one in unmatched_class_factors(view.outcome.settings.metric)],
        "algorithm_url": reverse("dashboard:algorithm", kwargs={"policy": slug}),
        "decay_url": reverse("dashboard:decay", kwargs={"policy": slug}),
    }
    return render(request, "pages/changes/drafts/settings.html", context, status=status)


def _field_of(where: str) -> str:
    """Form field of a settings path, such as class_factors for settings.metric.class_factors[3].factor."""
    name = where.removeprefix("settings.").removeprefix("metric.")
    for field in ("class_factors", "site_factors"):
        if name.startswith(field):
            return field
    return name.replace("weights.", "weight_")


def _around(view: DraftView, title: str) -> dict[str, Any]:
    return {
        **pages.bar_context(view),
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": view.policy.slug})},
            {"label": presentation.title_of(view.draft), "url": draft_url(view.draft.pk)},
            {"label": title},
        ],
        "back_url": draft_url(view.draft.pk),
    }


_MAX_REASON = 2_000


class Show(Protocol):
    """Function that renders the page with extra context: reason, stated, refusal, refusal_code, reason_error."""

    def __call__(self, *, status: int = 200, **more: Any) -> HttpResponse: ...


def decide(
    request: HttpRequest, policy: str, part: str, values: Mapping[str, Any] | None, *, show: Show, back: str
) -> HttpResponse:
    """Preview, publish or draft a change of one part of a policy's settings, as the button `step` says.

    values: the part's new values; None if the typed ones are invalid. back: URL to redirect to after publishing.
    """
    action = read_action(request)
    reason, step = action.reason.strip()[:_MAX_REASON], action.step
    if values is None:
        return show(status=422, reason=reason)
    settings = {part: dict(values)}
    if step == "draft":
        try:
            return add_to_draft(request, policy, settings, reason)
        except (Invalid, Conflict) as error:
            return show(status=422, reason=reason, refusal=_refusal(error), refusal_code=error.code)
    stated = urlencode(sorted((key, str(value)) for key, value in values.items()))
    if step != "publish" or request.POST.get("previewed") != stated:  # changed values are previewed first
        return show(reason=reason, stated=stated)
    if not reason:
        missing = _("Enter a reason.")
        return show(status=422, reason=reason, stated=stated, reason_error=missing)
    try:
        revision = change_settings(
            policy_slug=policy,
            settings=settings,
            reason=reason,
            base_revision=read_whole(request.POST.get("base_revision", ""), 9),
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = status_of(error)
        return show(status=status, reason=reason, stated=stated, refusal=_refusal(error), refusal_code=error.code)
    add_published_message(request, revision)
    return SeeOther(back)


def _refusal(error: Invalid | Conflict) -> str:
    if isinstance(error, EditConflict):
        return _(
            "Another person changed these settings after you opened the page. Check the current ones, then decide."
        )
    return error.message
