"""What the editor's page and its fragments show, put together once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.dashboard.drafts import presenters as draft_words
from apps.dashboard.drafts.presenters import PERCENT, SHARES, DraftLine, draw_draft, percent_value, sum_words
from apps.dashboard.figures import bars
from apps.dashboard.shell import lines
from apps.dashboard.shell.requests import actor_of
from apps.policies.changesets import drafts
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_change_set
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import (
    DraftPage,
    DraftRow,
    DraftView,
    find_entries,
    get_draft_page,
    open_draft_view,
)

ACTIONS = ("menu", "shares", "add", "rename", "move", "archive", "lock", "scope", "dates", "kind", "restore")
MAX_QUERY = 128
# What an address may carry. A form has more, its CSRF token among it, and an address stays in histories and logs.
_STATE = ("open", "entry", "do", "q", "to", "mode", "parent", "cursor", "group")
_NEIGHBOURS_FOR = timedelta(days=14)
_MOST_GOALS = 20
_STRIP = 12


def draft_url(change_set_id: int, back: str = "") -> str:
    """The editor's page; `back` is the query that says what is open and chosen in it, and in which of its two views."""
    state = QueryDict(back)
    name = "dashboard:draft-shares" if "group" in state else "dashboard:draft"
    url = reverse(name, kwargs={"change_set": change_set_id})
    return f"{url}?{state.urlencode()}" if state else url


def review_url(change_set_id: int) -> str:
    return reverse("dashboard:change", kwargs={"change_set": change_set_id})


@dataclass(frozen=True, slots=True)
class Asked:
    """State of the page that its address carries."""

    entry: UUID | None
    action: str
    query: str
    goal: str  # what is looked for in the dialog of a move
    mode: str
    opened: tuple[UUID, ...]
    back: str
    group: UUID | None = None  # whose children are shown as a bar

    @classmethod
    def of(cls, data: QueryDict) -> Asked:
        """From the address, or from what a form carries along as `back`."""
        if "back" in data:
            state = QueryDict(data.get("back", ""), mutable=True)
            if data.get("entry") and not state.get("entry"):
                state["entry"] = data.get("entry", "")
            return cls.of(state)
        state = QueryDict(mutable=True)
        for name in _STATE:
            if name in data:
                state.setlist(name, data.getlist(name))
        action = data.get("do", "")
        return cls(
            entry=uid_of(data.get("entry", "")) if data.get("entry") else None,
            action=action if action in ACTIONS else "",
            query=data.get("q", "").strip().replace("\0", "")[:MAX_QUERY],
            goal=data.get("to", "").strip().replace("\0", "")[:MAX_QUERY],
            mode=PERCENT if data.get("mode") == PERCENT else SHARES,
            opened=tuple(uid_of(text) for text in data.getlist("open")[:2_000] if text),
            back=state.urlencode(),
            group=uid_of(data.get("group", "")) if data.get("group") else None,
        )


def uid_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        message = _("No such entry.")
        raise Invalid(message, fields=[FieldProblem("address", text[:64])]) from None


def open_view(request: HttpRequest, change_set_id: int, *, more: Sequence[dict[str, Any]] = ()) -> DraftView:
    return open_draft_view(change_set_id=change_set_id, at=clock.now(), actor=actor_of(request), more=more)


def draft_of(request: HttpRequest, change_set_id: int) -> ChangeSet:
    return get_change_set(id=change_set_id, actor=actor_of(request), at=clock.now())


def page_context(view: DraftView, asked: Asked) -> dict[str, Any]:
    """The whole page."""
    page = get_draft_page(view, open_uids=asked.opened, query=asked.query)
    return {
        **bar_context(view),
        **rows_context(view, page, asked),
        **panel_context(view, asked),
        "asked": asked,
        "neighbours": neighbours(view),
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": view.policy.slug})},
            {"label": _("Changes"), "url": reverse("dashboard:changes", kwargs={"policy": view.policy.slug})},
            {"label": draft_words.title_of(view.draft)},
        ],
    }


def bar_context(view: DraftView) -> dict[str, Any]:
    """The dark bar: what it is, how far it has come, and how it goes on."""
    draft = view.draft
    return {
        "draft": draft,
        "policy": view.policy,
        "title": draft_words.title_of(draft),
        "n_edits": len(draft.operations),
        "n_moved": max(0, view.policy.head_number - draft.base_number),
        "may_publish": view.may_publish,
        "is_mine": view.actor.user is not None and draft.author_id == view.actor.user.pk,
        "is_open": draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        "review_url": review_url(draft.pk),
    }


def rows_context(view: DraftView, page: DraftPage, asked: Asked) -> dict[str, Any]:
    drawn = draw_draft(page.rows, tolerance=lines.tolerance_of(page.settings), mode=asked.mode)
    return {
        "page": page,
        "lines": list(_with_more(drawn, page, asked)),
        "n_lines": len(drawn) + 1,
        "focus_uid": drawn[0].row.node.uid if drawn else None,
        "mode": asked.mode,
        "chosen_uid": asked.entry,
        "draft": view.draft,
        "back": asked.back,
    }


def some_rows_context(view: DraftView, rows: Sequence[DraftRow], asked: Asked) -> dict[str, Any]:
    """Lines that replace those of the same entries."""
    opened = set(asked.opened)
    settings = view.outcome.settings
    drawn = draw_draft(rows, tolerance=lines.tolerance_of(settings), mode=asked.mode)
    return {
        "lines": drawn,
        "opened": opened,
        "mode": asked.mode,
        "chosen_uid": asked.entry,
        "draft": view.draft,
        "back": asked.back,
        "is_part": True,
    }


def panel_context(view: DraftView, asked: Asked, *, typed: str = "") -> dict[str, Any]:
    """Beside the tree: the chosen entry's siblings before and after, what can be done to it, and the log."""
    node = view.tree.get(asked.entry) if asked.entry else None
    node = node if node is not None and view.sees(node) else None
    found: dict[str, Any] = {
        "chosen": None,
        "draft": view.draft,
        "edits": draft_words.edit_lines(view.draft.operations, view.tree),
        "n_edits": len(view.draft.operations),
        "archived": archived_lines(view),
        "asked": asked,
        "back": asked.back,
        "is_open": view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        "may_publish": view.may_publish,
    }
    return found if node is None else found | siblings_context(view, node, asked) | action_context(view, node, asked)


def siblings_context(view: DraftView, node: Node, asked: Asked) -> dict[str, Any]:
    """The strip: the entry itself and its siblings, those that move most where there are many."""
    rows = view.siblings(node)
    most = {row.node.uid for row in sorted(rows, key=lambda row: (row.node.uid != node.uid, -_moved(row)))[:_STRIP]}
    drawn = draw_draft(
        [row for row in rows if row.node.uid in most],
        tolerance=lines.tolerance_of(view.outcome.settings),
        mode=asked.mode,
        width=bars.PANEL_WIDTH,
    )
    size = rows[0].set_size if rows else 0
    return {
        "chosen": next((line for line in drawn if line.row.node.uid == node.uid), None),
        "chosen_parent": view.tree.get(node.parent_uid) if node.parent_uid else None,
        "strip": drawn,
        "n_left_out": max(size - len(drawn), 0),
        "strip_sum": sum_words(rows) if size <= len(rows) else "",
        "draft": view.draft,
    }


def action_context(view: DraftView, node: Node, asked: Asked) -> dict[str, Any]:
    """The form of one action on an entry, or the list of them."""
    row = view.row(node)
    found: dict[str, Any] = {
        "action": asked.action,
        "node": node,
        "row": row,
        "path": view.tree.path(node),
        "back": asked.back,
        "draft": view.draft,
        "goal": asked.goal,
    }
    if asked.action == "move":
        found["goals"] = move_goals(view, node, asked.goal)
    if asked.action == "shares" and node.parent_uid is not None:
        siblings = [each for each in view.siblings(node) if each.node.uid != node.uid]
        found["givers"] = [each for each in siblings if each.may_change and each.node.shares is not None]
        found["has_reserve"] = any(each.node.kind == "reserve" for each in siblings)
        found["percent_now"] = "" if row.target is None else percent_value(row.target)
    if asked.action == "restore":
        gone = drafts.list_archived(view.draft, node.uid)
        found["gone"] = [each for each in gone if view.tree.get(each.uid) is None]
    if asked.action == "archive":
        found["n_below"] = view.tree.n_children(node.uid)
    return found


def move_goals(view: DraftView, node: Node, query: str) -> list[dict[str, Any]]:
    """Entries that it could go into, each with the reason where it can't."""
    nodes = find_entries(view, query, most=_MOST_GOALS * 3) if query else _usual_goals(view, node)
    found = []
    for goal in nodes[:_MOST_GOALS]:
        way = view.tree.lineage(goal)
        found.append(
            {
                "node": goal,
                "path": "/" + "/".join(step.name for step in way[1:]),
                "refused": _why_not(view, node, goal, way),
                "is_current": goal.uid == node.parent_uid,
            }
        )
    return found


def _usual_goals(view: DraftView, node: Node) -> list[Node]:
    """Before anything is typed: what is above it, and groups near it."""
    way = view.tree.lineage(node)[:-1]
    near = [view.tree.node_at(place) for step in way[-2:] for place in view.places(step.uid)[:_MOST_GOALS]]
    goals = {each.uid: each for each in [*way[::-1], *near] if each.uid != node.uid and each.is_group}
    return list(goals.values())


def _why_not(view: DraftView, node: Node, goal: Node, way: Sequence[Node]) -> str:
    if goal.uid == node.parent_uid:
        return _("it is there now")
    if any(step.uid == node.uid for step in way):
        return _("is inside it")
    if goal.kind == "reserve":
        return _("a reserve has no children")
    if not view.may_divide(goal):
        return _("outside your rights")
    return ""


def archived_lines(view: DraftView) -> list[dict[str, Any]]:
    """What this draft archives, by the topmost entries: each can be brought again."""
    gone = {uid: before for uid, (before, after) in view.tree.changes.items() if before and after is None}
    tops = [before for before in gone.values() if before.parent_uid not in gone]
    return [{"uid": node.uid, "name": node.name} for node in tops if view.sees_before(node)][:20]


def neighbours(view: DraftView) -> list[str]:
    """Who else is changing the same entries, in words."""
    mine = drafts.named_uids(view.draft.operations)
    access = ChangeSetAccess(view.policy, view.actor, view.at)
    found = []
    for other in drafts.list_neighbours(view.draft, since=view.at - _NEIGHBOURS_FOR)[:3]:
        shared = [view.tree.get(UUID(uid)) for uid in sorted(mine & drafts.named_uids(other.operations))]
        names = [node.name for node in shared if node is not None and view.sees(node)]
        if not names:
            continue
        what = f"{names[0]} (“{draft_words.title_of(other)}”)" if access.may_see(other) else names[0]
        told = {"who": display_name(other.author_name), "entry": what}
        found.append(_("%(who)s is also changing %(entry)s.") % told)
    return found


def _moved(row: DraftRow) -> float:
    return abs((row.target or 0.0) - (row.target_before or 0.0))


def _with_more(drawn: Sequence[DraftLine], page: DraftPage, asked: Asked) -> Any:
    """Put "load more" after the last shown descendant of each large group."""
    waiting = {row.parent_uid: row for row in page.more}
    groups: list[tuple[int, Any]] = []

    def stand_in(more: Any) -> dict[str, Any]:
        state = QueryDict(asked.back, mutable=True)
        state["cursor"], state["parent"] = more.cursor, str(more.parent_uid)
        return {"more": more, "guides": more.level - 1, "url": f"?{state.urlencode()}"}

    for line in drawn:
        while groups and line.row.level <= groups[-1][0]:
            yield stand_in(groups.pop()[1])
        yield line
        found = waiting.pop(line.row.node.uid, None)
        if found is not None:
            groups.append((line.row.level, found))
    while groups:
        yield stand_in(groups.pop()[1])
    for more in waiting.values():
        yield stand_in(more)
