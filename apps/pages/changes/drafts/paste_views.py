"""The page that adds the edits of a table pasted from a spreadsheet to a draft."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid, Stale, TooLarge, problem_sentence, status_of
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts import presenters as draft_text
from apps.pages.changes.drafts.edit_views import unconditional, version_of
from apps.policies.changesets import drafts
from apps.policies.files.import_export import PastePlan, plan_paste
from apps.priorities.selectors.draft import DraftView
from apps.web.links import draft_url
from apps.web.shell import presentation
from apps.web.shell.forms import read_action
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
        **pages.subpage_context(view, _("Paste a table")),
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
    after = DraftView(view.draft, view.actor, view.at, plan.outcome, view.granted)
    lines = []
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
        lines.append(line)
    return lines
