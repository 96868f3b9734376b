"""Endpoints that edit a draft: single edits, undo and redo, update to the current revision, publish, and discard.

A request names the draft's version that its page showed, in `If-Match` or in a field. Without one the response is 428;
with an outdated one it is 412 and shows the edit beside the draft's current state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import compress
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound, Stale, TooLarge, status_of
from apps.core.typed_numbers import read_whole
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts import presenters as draft_text
from apps.pages.changes.drafts.forms import read_operation
from apps.pages.changes.drafts.pages import EditorState
from apps.pages.changes.drafts.presenters import PERCENT
from apps.pages.changes.drafts.views import group_parts, show, words_of_refusal
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Operation
from apps.policies.tree.names import PARENT
from apps.priorities.selectors.draft import DraftView, get_draft_page
from apps.priorities.sentences import numbers
from apps.web.changes.edit_refusals import field_of
from apps.web.links.addresses import draft_url, review_url
from apps.web.shell import presentation
from apps.web.shell.errors import Refusal, refuse
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of

_IN_PLACE = ("set_shares", "lock", "set_scope", "set_dates", "set_kind")
_TAG = re.compile(r'(?:W/)?"(\d{1,9})"')


@require_http_methods(["GET", "HEAD", "POST"])
def operation(request: HttpRequest, change_set: int) -> HttpResponse:
    """Add one edit to the draft."""

    def write(version: int) -> drafts.WrittenDraft:
        edit = read_operation(request.POST)
        return drafts.write_operations(
            id=change_set, version=version, operations=[edit], at=clock.now(), actor=actor_of(request)
        )

    return _written(request, change_set, write)


@require_http_methods(["GET", "HEAD", "POST"])
def log(request: HttpRequest, change_set: int) -> HttpResponse:
    """Undo or redo edits, drop one edit, or set the reason."""

    def write(version: int) -> ChangeSet:
        common: dict[str, Any] = {"id": change_set, "version": version, "at": clock.now(), "actor": actor_of(request)}
        action = read_action(request)
        if action.step == "undo":
            return drafts.undo(**common, n=_whole(request, "n", 1))
        if action.step == "redo":
            return drafts.redo(**common, n=_whole(request, "n", 1))
        if action.step == "drop":
            return drafts.drop_operation(**common, index=_whole(request, "index", -1))
        if action.step == "reason":
            return drafts.describe_draft(**common, reason=action.reason)
        raise Invalid(_("Choose an action."))

    return _written(request, change_set, write)


@require_http_methods(["GET", "HEAD", "POST"])
def update(request: HttpRequest, change_set: int) -> HttpResponse:
    """Rebase the draft on the current revision; for fields that both changed, ask which value to keep."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    pages.draft_of(request, change_set)  # raises NotFound before anything else is checked
    version, editor = version_of(request), EditorState.of(request.POST)
    if version is None:
        return unconditional(request)
    choices: dict[str, Any] = {
        key.removeprefix("choice-"): value
        for key, value in request.POST.items()
        if key.startswith("choice-") and value in ("mine", "theirs")
    }
    try:
        drafts.update_draft(id=change_set, version=version, choices=choices, at=clock.now(), actor=actor_of(request))
    except EditConflict as error:
        return show(request, pages.open_view(request, change_set), editor, status=409, conflicts=_sides(error, choices))
    except (Stale, Invalid) as error:
        return _show_refused(request, change_set, editor, error)
    messages.success(request, _("Saved"))
    return SeeOther(draft_url(change_set, editor.back))


@require_http_methods(["GET", "HEAD", "POST"])
def finish(request: HttpRequest, change_set: int) -> HttpResponse:
    """Request a review of the draft, publish it, or discard it."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    policy = pages.draft_of(request, change_set).policy.slug  # raises NotFound before anything else is checked
    version, editor = version_of(request), EditorState.of(request.POST)
    if version is None:
        return unconditional(request)
    common: dict[str, Any] = {"id": change_set, "version": version, "at": clock.now(), "actor": actor_of(request)}
    step, reason = read_action(request).step, request.POST.get("reason")
    tree = reverse("pages:policy", kwargs={"policy": policy})
    try:
        if step == "publish":
            revision = services.publish_change_set(**common, reason=reason)
            add_published_message(request, revision, has_link=False, has_undo=False)
            return SeeOther(review_url(change_set))
        if step == "propose":
            if not pages.draft_of(request, change_set).operations:
                raise Invalid(_("No changes yet."))
            services.propose_change_set(**common, reason=reason)
            messages.success(request, _("Submitted"))
            return SeeOther(review_url(change_set))
        if step == "withdraw":
            services.withdraw_change_set(**common)
            messages.success(request, _("Discarded"))
            return SeeOther(tree)
    except EditConflict as error:
        return show(request, pages.open_view(request, change_set), editor, status=409, conflicts=_sides(error, {}))
    except (Invalid, Conflict, Stale, NotAllowed) as error:
        return _show_refused(request, change_set, editor, error)
    return SeeOther(draft_url(change_set, editor.back))


def version_of(request: HttpRequest) -> int | None:
    """Version of the draft that the page showed; None without one, 0 (no version) if it is no number."""
    match = _TAG.fullmatch(request.headers.get("If-Match", "").strip())
    if match:
        return int(match[1])
    return read_action(request).version if request.POST.get("version", "").strip() else None


def unconditional(request: HttpRequest) -> HttpResponse:
    message = _("Reload the page and try again.")
    return refuse(request, Refusal(428, _("This draft was changed elsewhere."), message, "precondition_required"))


def _written(
    request: HttpRequest, change_set: int, write: Callable[[int], ChangeSet | drafts.WrittenDraft]
) -> HttpResponse:
    """Run one write; respond with the changed parts of the page, or with the refusal and its status."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    version, editor = version_of(request), EditorState.of(request.POST)
    if version is None:
        pages.draft_of(request, change_set)  # raises NotFound, as every write below does first
        return unconditional(request)
    try:
        written = write(version)
    except (Invalid, NotFound, TooLarge, Stale, Conflict) as error:
        view = pages.open_view(request, change_set)
        context = _refusal(request, view, editor, error)
        return render(request, "pages/changes/drafts/_refused.html", context, status=status_of(error))
    if not isinstance(written, drafts.WrittenDraft):
        return _parts(request, pages.open_view(request, change_set), editor, inherited=False)
    view = DraftView(written.draft, actor_of(request), clock.now(), *written.checked)
    # Whether the draft let the entry inherit its shares.
    edits = [
        each["shares"]
        for each in written.before
        if (each["op"], each.get("entry")) == ("set_shares", request.POST.get("entry", ""))
    ]
    return _parts(request, view, editor, inherited=edits[-1:] == [PARENT])


def _parts(request: HttpRequest, view: DraftView, editor: EditorState, *, inherited: bool) -> HttpResponse:
    """Fragments with the bar, the panel, and the rows that changed. inherited: the entry did before this edit."""
    if editor.shows_group:
        return group_parts(request, view, editor, announcement=_announcement(view, request.POST.get("op", "")))
    kind, context = request.POST.get("op", ""), pages.bar_context(view) | pages.panel_context(view, editor)
    changed = _in_place(view, request) if kind in _IN_PLACE and not inherited else None
    if changed is None:
        page = get_draft_page(view, open_uids=editor.opened, query=editor.query)
        context |= pages.rows_context(view, page, editor)
    else:
        context |= pages.some_rows_context(view, changed, editor)  # all at once: bars of siblings have one scale
        drawn, entry = context["lines"], request.POST.get("entry")
        # An edit by percent also changes the fields of all siblings.
        whole = [editor.mode == PERCENT or bool(each.row.status) or str(each.row.node.uid) == entry for each in drawn]
        context["lines"] = list(compress(drawn, whole))
        context["shifted"] = [line for line, is_whole in zip(drawn, whole, strict=True) if not is_whole]
    context |= {"announcement": _announcement(view, kind), "neighbours": pages.neighbours(view)}
    response = render(request, "pages/changes/drafts/_parts.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


def _in_place(view: DraftView, request: HttpRequest) -> Any:
    """Rows of the shown siblings of the edited entry; None if rows elsewhere in the tree may change, too."""
    try:
        node = view.tree.get(UUID(request.POST.get("entry", "")))
    except ValueError:
        return None
    if node is None or not view.sees(node):
        return None
    if node.parent_uid is None:
        return [view.row(node)]
    before = view.tree.before(node.uid)
    if node.shares is None or (before and before.shares is None) or view.tree.sum_of(node.parent_uid).passes_on:
        return None  # entries other than its siblings compete with it
    opened = set(request.POST.getlist("open"))
    shown = request.POST.getlist("shown")[:400]
    siblings = view.places(node.parent_uid)
    first = [] if shown else list({sibling.name: sibling for sibling in siblings}.values())[:100]
    uids = [UUID(uid) for uid in shown if _is_uid(uid)] or [view.tree.node_at(sibling).uid for sibling in first]
    shown_nodes = [each for each in (view.tree.get(uid) for uid in uids) if each is not None and view.sees(each)]
    positions = {sibling.name: n for n, sibling in enumerate(siblings, 1)}
    return [
        view.row(each, position=(positions.get(each.name, 1), len(positions)), is_open=str(each.uid) in opened)
        for each in shown_nodes
        if each.parent_uid == node.parent_uid
    ]


def _is_uid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _announcement(view: DraftView, kind: str) -> str:
    """Text for screen readers after an edit: the edit itself, or the number of edits after undo and redo."""
    if kind and view.draft.operations:
        last = view.draft.operations[-1]
        text = draft_text.words_of(last, view.tree)
        if last["op"] == "set_shares" and last["shares"] == 0:
            return _("%(edit)s: its target is 0") % {"edit": text}
        return text
    n = len(view.draft.operations)
    return ngettext("%(n)s edit in this draft", "%(n)s edits in this draft", n) % {"n": n}


def _show_refused(request: HttpRequest, change_set: int, editor: EditorState, error: DomainError) -> HttpResponse:
    """The page in the same view, with a refusal and the typed values; a missing reason is said below its field.

    Of a draft that was changed elsewhere no side is offered: what is refused concerns all edits, also unseen ones.
    """
    view = pages.open_view(request, change_set)
    context = _refusal(request, view, editor, error) | {"stale": None}
    if error.code == "reason_missing":
        context |= {"reason_problem": context["problem"], "problem": ""}
    return show(request, view, editor, status=status_of(error), **context)


def _refusal(request: HttpRequest, view: DraftView, editor: EditorState, error: DomainError) -> dict[str, Any]:
    """Context of a refusal, with the typed values; after a stale edit also with the draft's current state."""
    context: dict[str, Any] = {
        "problem": words_of_refusal(error),
        "problem_code": error.code,
        "problem_field": field_of(error) if isinstance(error, Invalid) else "",
        "problems": error.fields[1:] if isinstance(error, Invalid) else (),
        "draft": view.draft,
        "back": editor.back,
        "typed": request.POST,
    }
    if isinstance(error, Stale):
        context["stale"] = _both_sides(view, request)
    return context


def _both_sides(view: DraftView, request: HttpRequest) -> dict[str, Any]:
    """The refused edit in words, the draft's current value, and the form's fields to submit it again."""
    own_words, current_words = "", ""
    try:
        wanted: Operation = read_operation(request.POST)
        own_words = draft_text.words_of(wanted, view.tree)
        node = view.tree.get(UUID(str(wanted.get("entry", ""))))
        if node is not None and view.sees(node) and node.parent_uid:
            path = "/" + "/".join(step.name for step in view.tree.lineage(node)[1:])
            current_words = _("%(path)s has %(shares)s shares") % {
                "path": path,
                "shares": presentation.shares(node.shares),
            }
    except (Invalid, ValueError, KeyError):
        pass
    last = view.draft.operations[-1] if view.draft.operations else None
    data = {key: request.POST.getlist(key) for key in request.POST if key not in ("version", "csrfmiddlewaretoken")}
    return {
        "mine": own_words,
        "theirs": current_words or (draft_text.words_of(last, view.tree) if last else _("None.")),
        "fields": [(key, value) for key, values in data.items() for value in values][:500],
        "action": request.path,
    }


def _sides(error: EditConflict, choices: Mapping[str, str]) -> list[dict[str, Any]]:
    """Each conflicting field with its base, own and current value, for the form to choose from."""
    sides = []
    for each in error.conflicts:
        key = each.key
        sides.append(
            {
                "key": key,
                "field": presentation.field_conflict(
                    each.path, each.field, base=each.base, current=each.theirs, wanted=each.mine
                ),
                "path": each.path,
                "name": each.field,
                "base": _value_text(each.base),
                "mine": _value_text(each.mine),
                "theirs": _value_text(each.theirs),
                "choice": choices.get(key, ""),
                "can_keep": each.can_keep,
            }
        )
    return sides


def _value_text(value: object) -> str:
    if isinstance(value, float):
        return presentation.shares_short(value)
    if isinstance(value, list) and value:
        return ", ".join(map(str, value[:8]))
    return numbers.UNKNOWN if value in (None, "", False, []) else str(value)


def _whole(request: HttpRequest, field: str, default: int) -> int:
    number = read_whole(request.POST.get(field, ""), 6)
    return default if number is None else number
