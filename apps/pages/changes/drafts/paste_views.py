"""The page that adds the edits of a table pasted from a spreadsheet to a draft."""

from __future__ import annotations

import re
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
from apps.policies.files.import_export import PastePlan, paste_table, plan_paste
from apps.priorities.selectors.draft import DraftView
from apps.priorities.sentences import numbers
from apps.web.links.addresses import draft_url
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

_SHOWN = 200
_LINE = re.compile(r"line (\d+)(?:, ([^:]*))?(?:: (.*))?")
SAMPLE = "path\tshares\n/physics\t30\n/physics/alice\t2\n/physics/bob\tinherit\n"


@require_http_methods(["GET", "HEAD", "POST"])
def paste(request: HttpRequest, change_set: int) -> HttpResponse:
    """Preview the changes of a pasted table line by line, then add all of them to the draft, or none."""
    if request.method != "POST":
        return _show_paste(request, pages.open_view(request, change_set))
    draft = pages.draft_of(request, change_set)  # raises NotFound before anything else is checked
    version, text = version_of(request), request.POST.get("table", "")
    if version is None:
        return unconditional(request)
    at, actor = clock.now(), actor_of(request)
    try:
        if read_action(request).step == "apply":
            plan = paste_table(id=change_set, version=version, text=text, at=at, actor=actor)
        else:
            plan = plan_paste(draft, text, at=at, actor=actor)
    except (Invalid, TooLarge, Stale, Conflict) as error:
        view = pages.open_view(request, change_set)
        return _show_paste(request, view, text=text, status=status_of(error), error=error)
    n = len(plan.operations)
    if not n or read_action(request).step != "apply":
        return _show_paste(request, DraftView(draft, actor, at, *plan.before), text=text, plan=plan)
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
    if plan is not None and plan.after is not None:
        after = DraftView(view.draft, view.actor, view.at, *plan.after)
        context["preview"] = _preview(view, after, plan)
        context["n_left_out"] = max(len(plan.operations) - len(context["preview"]), 0)
    return render(request, "pages/changes/drafts/paste.html", context, status=status)


def _problem_row(where: str, message: str) -> dict[str, str]:
    """Line 3: name too long (180 of 128 characters). A column other than the path is named with the line."""
    match = _LINE.fullmatch(where)
    if match is None:
        return {"where": where.replace("operations", _("Edit")), "message": problem_sentence(message)}
    line, column = match[1], match[3] if match[3] not in (None, "path") else ""
    place = _("Line %(n)s, %(column)s") if column else _("Line %(n)s")
    return {"where": place % {"n": line, "column": column}, "message": problem_sentence(message)}


def _preview(view: DraftView, after: DraftView, plan: PastePlan) -> list[dict[str, Any]]:
    """Rows of the first edits of the table: the edit in words, and the entry's target before and after."""
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
            old = view.tree.get(node.uid)
            shares = numbers.change_shares(view.tree.target(old) if old else None, after.tree.target(node))
            line["path"] = after.tree.path(node)
            line["target"], line["before"] = shares.after, shares.before if old else _("none")
        lines.append(line)
    return lines
