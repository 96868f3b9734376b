"""Writing in a draft: every edit by itself, undo and redo, and how a draft ends.

Each request says which version it saw, in `If-Match` or in a field: 428 without, 412 with both sides when it is older.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound, Stale, TooLarge, status_of
from apps.core.typed_numbers import read_whole
from apps.dashboard.drafts import pages
from apps.dashboard.drafts import presenters as draft_words
from apps.dashboard.drafts.forms import field_of, read_operation
from apps.dashboard.drafts.group import group_parts
from apps.dashboard.drafts.pages import Asked, draft_url
from apps.dashboard.drafts.presenters import PERCENT, typed_value
from apps.dashboard.drafts.views import show, words_of_refusal
from apps.dashboard.shell import presentation
from apps.dashboard.shell.errors import Refusal, refuse
from apps.dashboard.shell.publishing import add_published_message
from apps.dashboard.shell.requests import SeeOther, actor_of, is_htmx
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Operation
from apps.priorities.selectors.draft import DraftView, get_draft_page

_IN_PLACE = ("set_shares", "lock", "set_scope", "set_dates", "set_kind")
_TAG = re.compile(r'(?:W/)?"(\d{1,9})"')
_MOST_AT_ONCE = 1_000


@require_http_methods(["GET", "HEAD", "POST"])
def operation(request: HttpRequest, change_set: int) -> HttpResponse:
    """One edit."""

    def write(version: int) -> drafts.Written:
        asked = read_operation(request.POST)
        return drafts.write_operations(
            id=change_set, version=version, operations=[asked], at=clock.now(), actor=actor_of(request)
        )

    return _written(request, change_set, write)


@require_http_methods(["GET", "HEAD", "POST"])
def cells(request: HttpRequest, change_set: int) -> HttpResponse:
    """All numbers of the page at once, for who has no scripts: those that differ from what stood there are edits."""

    def write(version: int) -> ChangeSet:
        view, asked = pages.open_view(request, change_set), Asked.of(request.POST)
        found = _typed_over(view, request.POST, asked)
        if not found:
            return view.draft
        return drafts.add_operations(
            id=change_set, version=version, operations=found, at=clock.now(), actor=actor_of(request)
        )

    return _written(request, change_set, write)


@require_http_methods(["GET", "HEAD", "POST"])
def log(request: HttpRequest, change_set: int) -> HttpResponse:
    """Undo, redo, leave one edit out, or say the reason."""

    def write(version: int) -> ChangeSet:
        common: dict[str, Any] = {"id": change_set, "version": version, "at": clock.now(), "actor": actor_of(request)}
        step = request.POST.get("step", "")
        if step == "undo":
            return drafts.undo(**common, n=_whole(request, "n", 1))
        if step == "redo":
            return drafts.redo(**common, n=_whole(request, "n", 1))
        if step == "drop":
            return drafts.drop_operation(**common, index=_whole(request, "index", -1))
        if step == "reason":
            return drafts.describe_draft(**common, reason=request.POST.get("reason", ""))
        raise Invalid(_("Unknown action."))

    return _written(request, change_set, write)


@require_http_methods(["GET", "HEAD", "POST"])
def update(request: HttpRequest, change_set: int) -> HttpResponse:
    """Set the draft upon the revision in force; where both sides changed something, a choice is asked for."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    pages.draft_of(request, change_set)  # what isn't there for somebody says so first
    version, asked = version_of(request), Asked.of(request.POST)
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
        return show(request, pages.open_view(request, change_set), asked, status=409, conflicts=_sides(error, choices))
    except (Stale, Invalid) as error:
        return _refused(request, change_set, asked, error)
    messages.success(request, _("Saved"))
    return SeeOther(draft_url(change_set, asked.back))


@require_http_methods(["GET", "HEAD", "POST"])
def finish(request: HttpRequest, change_set: int) -> HttpResponse:
    """Ask for a review, publish, or give the draft up."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    policy = pages.draft_of(request, change_set).policy.slug  # what isn't there for somebody says so first
    version, asked = version_of(request), Asked.of(request.POST)
    if version is None:
        return unconditional(request)
    common: dict[str, Any] = {"id": change_set, "version": version, "at": clock.now(), "actor": actor_of(request)}
    reason = request.POST.get("reason")
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    try:
        if request.POST.get("step") == "publish":
            revision = services.publish_change_set(**common, reason=reason)
            add_published_message(request, revision, has_link=False)
            return SeeOther(pages.review_url(change_set))
        if request.POST.get("step") == "propose":
            if not pages.draft_of(request, change_set).operations:
                raise Invalid(_("No changes yet."))
            services.propose_change_set(**common, reason=reason)
            messages.success(request, _("Submitted"))
            return SeeOther(pages.review_url(change_set))
        if request.POST.get("step") == "withdraw":
            services.withdraw_change_set(**common)
            messages.success(request, _("Discarded"))
            return SeeOther(tree)
    except EditConflict as error:
        return show(request, pages.open_view(request, change_set), asked, status=409, conflicts=_sides(error, {}))
    except (Invalid, Conflict, Stale, NotAllowed) as error:
        return _refused(request, change_set, asked, error)
    return SeeOther(draft_url(change_set, asked.back))


def version_of(request: HttpRequest) -> int | None:
    """Which version of the draft the page was made from; 0, which none is, for what can't be one."""
    match = _TAG.fullmatch(request.headers.get("If-Match", "").strip())
    if match:
        return int(match[1])
    text = request.POST.get("version", "").strip()
    if not text:
        return None
    return read_whole(text, 9) or 0


def unconditional(request: HttpRequest) -> HttpResponse:
    message = _("Reload the page and try again.")
    return refuse(request, Refusal(428, _("This draft was changed elsewhere."), message, "precondition_required"))


def _written(request: HttpRequest, change_set: int, write: Callable[[int], ChangeSet | drafts.Written]) -> HttpResponse:
    """Run one write, then answer with what changed on the page, or with the page."""
    if request.method != "POST":
        return SeeOther(draft_url(change_set))
    version, asked = version_of(request), Asked.of(request.POST)
    pages.draft_of(request, change_set)  # what isn't there for somebody says so first
    if version is None:
        return unconditional(request)
    try:
        written = write(version)
    except (Invalid, NotFound, TooLarge, Stale, Conflict) as error:
        return _refused(request, change_set, asked, error)
    if not is_htmx(request):
        return SeeOther(draft_url(change_set, asked.back) + ("#edits" if "index" in request.POST else ""))
    if isinstance(written, drafts.Written):
        return _parts(request, DraftView(written.draft, actor_of(request), clock.now(), written.outcome), asked)
    return _parts(request, pages.open_view(request, change_set), asked)


def _parts(request: HttpRequest, view: DraftView, asked: Asked) -> HttpResponse:
    """The bar, the panel, and the rows that look different now."""
    if asked.group:
        return group_parts(request, view, asked, said=_said(view, request.POST.get("op", ""), request))
    kind, context = request.POST.get("op", ""), pages.bar_context(view) | pages.panel_context(view, asked)
    changed = _in_place(view, request) if kind in _IN_PLACE else None
    if changed is None:
        page = get_draft_page(view, open_uids=asked.opened, query=asked.query)
        context |= pages.rows_context(view, page, asked)
    else:
        is_whole = asked.mode == PERCENT  # where the numbers in the fields of siblings change too
        named = {request.POST.get("entry"), *(str(row.node.uid) for row in changed if row.status or is_whole)}
        full = [row for row in changed if str(row.node.uid) in named]
        shifted = [row for row in changed if str(row.node.uid) not in named]
        context |= pages.some_rows_context(view, full, asked)
        context["shifted"] = pages.some_rows_context(view, shifted, asked)["lines"]
    context |= {"said": _said(view, kind, request), "neighbours": pages.neighbours(view)}
    response = render(request, "dashboard/drafts/_parts.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


def _in_place(view: DraftView, request: HttpRequest) -> Any:
    """Rows of the siblings that the page shows; None where the whole tree may look different."""
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
        return None  # others than its siblings compete with it
    opened = {uid for uid in request.POST.getlist("open")}
    shown = request.POST.getlist("shown")[:400]
    places = {place.name: place for place in view.places(node.parent_uid)} if not shown else {}
    uids = [UUID(uid) for uid in shown if _is_uid(uid)] or [
        view.tree.node_at(p).uid for p in list(places.values())[:100]
    ]
    found = [each for each in (view.tree.get(uid) for uid in uids) if each is not None and view.sees(each)]
    names = {p.name: k for k, p in enumerate(view.places(node.parent_uid), 1)}
    return [
        view.row(each, position=(names.get(each.name, 1), len(names)), is_open=str(each.uid) in opened)
        for each in found
        if each.parent_uid == node.parent_uid
    ]


def _is_uid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _said(view: DraftView, kind: str, request: HttpRequest) -> str:
    """For people who don't see the page move."""
    if kind and view.draft.operations:
        said = draft_words.words_of(view.draft.operations[-1], view.tree)
        last = view.draft.operations[-1]
        if last["op"] == "set_shares" and last["shares"] == 0:
            said += ": " + _("target is 0")
        return said
    n = len(view.draft.operations)
    return ngettext("%(n)s edit in this draft", "%(n)s edits in this draft", n) % {"n": n}


def _refused(request: HttpRequest, change_set: int, asked: Asked, error: DomainError) -> HttpResponse:
    """422 or 409 with what was typed kept; 412 with mine and theirs."""
    status = status_of(error)
    view = pages.open_view(request, change_set)
    context: dict[str, Any] = {
        "problem": words_of_refusal(error),
        "problem_code": error.code,
        "problem_field": field_of(error) if isinstance(error, Invalid) else "",
        "problems": error.fields[1:] if isinstance(error, Invalid) else (),
        "draft": view.draft,
        "back": asked.back,
        "typed": request.POST,
    }
    if isinstance(error, Stale):
        context["stale"] = _both_sides(view, request)
    if is_htmx(request):
        return render(request, "dashboard/drafts/_refused.html", context, status=status)
    return show(request, view, asked, status=status, **context)


def _both_sides(view: DraftView, request: HttpRequest) -> dict[str, Any]:
    """What I asked for beside what the draft says now."""
    mine, theirs = "", ""
    try:
        wanted: Operation = read_operation(request.POST)
        mine = draft_words.words_of(wanted, view.tree)
        node = view.tree.get(UUID(str(wanted.get("entry", ""))))
        if node is not None and view.sees(node) and node.parent_uid:
            way = "/" + "/".join(step.name for step in view.tree.lineage(node)[1:])
            theirs = _("%(path)s has %(shares)s shares") % {"path": way, "shares": presentation.shares(node.shares)}
    except (Invalid, ValueError, KeyError):
        pass
    last = view.draft.operations[-1] if view.draft.operations else None
    data = {key: request.POST.getlist(key) for key in request.POST if key not in ("version", "csrfmiddlewaretoken")}
    return {
        "mine": mine,
        "theirs": theirs or (draft_words.words_of(last, view.tree) if last else _("None.")),
        "fields": [(key, value) for key, values in data.items() for value in values][:500],
        "action": request.path,
    }


def _sides(error: EditConflict, choices: Mapping[str, str]) -> list[dict[str, Any]]:
    """Base, mine and theirs of each field, for the form that chooses."""
    found = []
    for each in error.conflicts:
        key = each.key
        found.append(
            {
                "key": key,
                "field": presentation.field_conflict(
                    each.path, each.field, base=each.base, theirs=each.theirs, mine=each.mine
                ),
                "path": each.path,
                "name": each.field,
                "base": _plain(each.base),
                "mine": _plain(each.mine),
                "theirs": _plain(each.theirs),
                "choice": choices.get(key, ""),
                "can_keep": each.can_keep,
            }
        )
    return found


def _plain(value: object) -> str:
    if isinstance(value, float):
        return presentation.shares_short(value)
    if isinstance(value, list):
        return ", ".join(map(str, value[:8]))
    return presentation.UNKNOWN if value in (None, "", False) else str(value)


def _typed_over(view: DraftView, data: QueryDict, asked: Asked) -> list[Operation]:
    found: list[Operation] = []
    for key in data:
        if not key.startswith("s-") or not _is_uid(key[2:]):
            continue
        node = view.tree.get(UUID(key[2:]))
        text = data.get(key, "").strip()
        if node is None or not view.sees(node) or text == typed_value(view.row(node, position=(1, 1)), asked.mode):
            continue
        form = QueryDict(mutable=True)
        form.update({"op": "set_shares", "entry": key[2:], "shares": text, "mode": asked.mode})
        try:
            found.append(read_operation(form))
        except Invalid as error:
            raise Invalid(f"{node.name}: {error.message}", code=error.code, fields=error.fields) from None
        if len(found) > _MOST_AT_ONCE:
            break
    return found


def _whole(request: HttpRequest, field: str, default: int) -> int:
    number = read_whole(request.POST.get(field, ""), 6)
    return default if number is None else number
