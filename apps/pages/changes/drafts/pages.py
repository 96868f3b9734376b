"""Template contexts of the draft editor's page and fragments, and the state that its URL carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.pages.changes.drafts import presenters as draft_text
from apps.pages.changes.drafts.group_presenters import group_json, group_lines, has_small, place_text, why_fixed, words
from apps.pages.changes.drafts.presenters import PERCENT, SHARES, DraftLine, draw_draft, percent_value, typed_value
from apps.policies.changesets import drafts
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_change_set
from apps.policies.tree.columns import Node
from apps.priorities.projections import projects_drafts
from apps.priorities.selectors.draft import (
    DraftPage,
    DraftRow,
    DraftView,
    find_entries,
    get_draft_page,
    open_draft_view,
)
from apps.priorities.selectors.draft_group import get_draft_group
from apps.web.changes.change_titles import title_in_editor, titles_of
from apps.web.links.addresses import draft_url, review_url
from apps.web.shell import lines
from apps.web.shell.requests import actor_of

ACTIONS = ("menu", "shares", "add", "rename", "move", "archive", "lock", "scope", "dates", "kind", "restore")
MAX_QUERY = 128
TREE, BARS, TREEMAP = VIEWS = ("tree", "bars", "treemap")
# Parameters that a URL may carry; other form fields, such as the CSRF token, must not reach histories and logs.
_STATE = ("view", "open", "entry", "q", "mode", "group")
_NEIGHBOURS_FOR = timedelta(days=14)
_MOST_GOALS = 20


@dataclass(frozen=True, slots=True)
class EditorState:
    """State of the editor that its URL carries.

    view: tree, bars or treemap. entry: the chosen entry. query: filter of the tree. mode: shares or percent. opened:
    expanded entries. back: the state as a query. group: the entry whose children are shown as bars. Not of the page but
    of its dialog are action, the form that is shown for the entry, and goal, the search text for the new parent of a
    move.
    """

    view: str

    entry: UUID | None
    action: str
    query: str
    goal: str
    mode: str
    opened: tuple[UUID, ...]
    back: str
    group: UUID | None = None

    @classmethod
    def of(cls, data: QueryDict) -> EditorState:
        """Read the state from a query, or from the field `back` of a form."""
        if "back" in data:
            state = QueryDict(data.get("back", ""), mutable=True)
            if data.get("entry") and not state.get("entry"):
                state["entry"] = data.get("entry", "")
            return cls.of(state)
        state = QueryDict(mutable=True)
        for name in _STATE:
            if name in data:
                state.setlist(name, data.getlist(name))
        action, view = data.get("do", ""), data.get("view", "")
        return cls(
            view=view if view in VIEWS else BARS if data.get("group") else TREE,
            entry=uid_of(data.get("entry", "")) if data.get("entry") else None,
            action=action if action in ACTIONS else "",
            query=data.get("q", "").strip().replace("\0", "")[:MAX_QUERY],
            goal=data.get("to", "").strip().replace("\0", "")[:MAX_QUERY],
            mode=PERCENT if data.get("mode") == PERCENT else SHARES,
            opened=tuple(uid_of(text) for text in data.getlist("open")[:2_000] if text),
            back=state.urlencode(),
            group=uid_of(data.get("group", "")) if data.get("group") else None,
        )

    @property
    def shows_group(self) -> bool:
        """Whether the page shows one group, as bars or as a treemap."""
        return self.view != TREE


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


def page_context(view: DraftView, editor: EditorState) -> dict[str, Any]:
    """Context of the whole page, in the view that its state names."""
    policy_url = reverse("pages:policy", kwargs={"policy": view.policy.slug})
    changes_url = reverse("pages:changes", kwargs={"policy": view.policy.slug})
    context = group_context(view, editor) if editor.shows_group else tree_context(view, editor)
    return {
        **context,
        "words": words(),
        "crumbs": [
            {"label": view.policy.name, "url": policy_url},
            {"label": _("Changes"), "url": changes_url},
            {"label": context["title"]},
        ],
    }


def tree_context(view: DraftView, editor: EditorState) -> dict[str, Any]:
    """Context of the tree, with what is beside it. A chosen entry is among the rows: its ancestors are open."""
    chosen = view.tree.get(editor.entry) if editor.entry is not None else None
    lineage = view.tree.lineage(chosen)[:-1] if chosen is not None and view.sees(chosen) else []
    page = get_draft_page(view, open_uids=editor.opened, query=editor.query, shown_uids=[step.uid for step in lineage])
    parent = lineage[-1] if lineage else view.tree.root
    return {
        **bar_context(view),
        **rows_context(view, page, editor),
        **panel_context(view, editor),
        "editor": editor,
        "parent": parent,
        "heading": view.tree.root.name,
        "neighbours": neighbours(view),
    }


def group_context(view: DraftView, editor: EditorState) -> dict[str, Any]:
    """Context of one group as bars or as a treemap, with what is beside it."""
    parent = parent_of(view, editor)
    draft_group = get_draft_group(view, parent)
    editor = _in_group(editor, parent, draft_group.rows)
    tolerance = lines.tolerance_of(view.outcome.settings)
    is_open = view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {
        **bar_context(view),
        **panel_context(view, editor),
        "editor": editor,
        "parent": parent,
        "heading": parent.name,
        "picked_uid": editor.entry,
        "way": view.tree.lineage(parent)[:-1],
        "group": draft_group,
        "lines": group_lines(draft_group, tolerance, is_open=is_open),
        "has_bar": any(row.target for row in draft_group.rows),
        "has_small": has_small(draft_group),
        "numbers": group_json(draft_group, tolerance, is_open=is_open),
        "neighbours": neighbours(view),
    }


def parent_of(view: DraftView, editor: EditorState) -> Node:
    """The entry whose children are shown: `group`, the parent of `entry`, or the root."""
    if editor.group is not None:
        return view.require(editor.group)
    entry = view.require(editor.entry) if editor.entry is not None else None
    return view.tree.root if entry is None or entry.parent_uid is None else view.require(entry.parent_uid)


def _in_group(editor: EditorState, parent: Node, rows: Sequence[DraftRow]) -> EditorState:
    """The state with this group, so that forms of the page lead back to it; one of its rows is chosen."""
    uids = [row.node.uid for row in rows]
    entry = editor.entry if editor.entry in uids else next(iter(uids), None)
    state = QueryDict(mutable=True)
    state["view"] = editor.view
    if entry is not None:
        state["entry"] = str(entry)
    state["group"] = str(parent.uid)
    return replace(editor, entry=entry, group=parent.uid, back=state.urlencode())


def bar_context(view: DraftView) -> dict[str, Any]:
    """Context of the bar at the top: title, number of edits, state, and possible actions."""
    draft = view.draft
    return {
        "draft": draft,
        "policy": view.policy,
        "title": title_in_editor(draft, tree=view.tree, sees=view.visibility, actor=view.actor, at=view.at).text,
        "n_edits": len(draft.operations),
        "n_moved": max(0, view.policy.head_number - draft.base_number),
        "may_publish": view.may_publish,
        "is_mine": view.actor.user is not None and draft.author_id == view.actor.user.pk,
        "is_open": draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        "review_url": review_url(draft.pk),
    }


def rows_context(view: DraftView, page: DraftPage, editor: EditorState) -> dict[str, Any]:
    drawn = draw_draft(page.rows, tolerance=lines.tolerance_of(page.settings), mode=editor.mode)
    return {
        "page": page,
        "lines": list(_with_more(drawn, page)),
        "n_lines": len(drawn) + 1,
        "focus_uid": drawn[0].row.node.uid if drawn else None,
        "has_dates": projects_drafts(),
        "mode": editor.mode,
        "chosen_uid": editor.entry,
        "draft": view.draft,
        "back": editor.back,
    }


def some_rows_context(view: DraftView, rows: Sequence[DraftRow], editor: EditorState) -> dict[str, Any]:
    """Context for rows that replace the rows of the same entries on the page."""
    opened = set(editor.opened)
    settings = view.outcome.settings
    drawn = draw_draft(rows, tolerance=lines.tolerance_of(settings), mode=editor.mode)
    return {
        "lines": drawn,
        "has_dates": projects_drafts(),
        "opened": opened,
        "mode": editor.mode,
        "chosen_uid": editor.entry,
        "draft": view.draft,
        "back": editor.back,
        "is_part": True,
    }


def panel_context(view: DraftView, editor: EditorState) -> dict[str, Any]:
    """Context of the panel: the chosen entry, the log of edits, and the form that publishes."""
    node = view.tree.get(editor.entry) if editor.entry else None
    node = node if node is not None and view.sees(node) else None
    is_open = view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    context: dict[str, Any] = {
        "chosen": None,
        "draft": view.draft,
        "edits": draft_text.edit_lines(view.draft.operations, view.tree),
        "n_edits": len(view.draft.operations),
        "archived": archived_lines(view),
        "editor": editor,
        "back": editor.back,
        "is_open": is_open,
        "may_publish": view.may_publish,
        "has_dates": projects_drafts(),
    }
    return context if node is None else context | chosen_context(view, node, is_open=is_open)


def chosen_context(view: DraftView, node: Node, *, is_open: bool) -> dict[str, Any]:
    """Context of the chosen entry, with the text of its field."""
    row = view.row(node, position=(1, 1))
    (line,) = draw_draft([row], tolerance=lines.tolerance_of(view.outcome.settings))
    parent = view.tree.get(node.parent_uid) if node.parent_uid else None
    return {
        "chosen": line,
        "chosen_typed": typed_value(row, SHARES),
        "chosen_parent": parent,
        "chosen_place": _("Whole policy") if parent is None else place_text(node, parent),
        "chosen_why_fixed": why_fixed(row, is_open=is_open),
    }


def action_context(view: DraftView, node: Node, editor: EditorState) -> dict[str, Any]:
    """Context of the form for one action on an entry, or of the menu of actions."""
    row = view.row(node)
    context: dict[str, Any] = {
        "action": editor.action,
        "node": node,
        "row": row,
        "path": view.tree.path(node),
        "back": editor.back,
        "draft": view.draft,
        "goal": editor.goal,
    }
    if editor.action == "move":
        context["goals"] = move_goals(view, node, editor.goal)
    if editor.action == "shares" and node.parent_uid is not None:
        siblings = [each for each in view.siblings(node) if each.node.uid != node.uid]
        context["givers"] = [each for each in siblings if each.may_change and each.node.shares is not None]
        context["has_reserve"] = any(each.node.kind == "reserve" for each in siblings)
        context["percent_now"] = "" if row.target is None else percent_value(row.target)
    if editor.action == "restore":
        gone = drafts.list_archived(view.draft, node.uid)
        context["gone"] = [each for each in gone if view.tree.get(each.uid) is None]
    if editor.action == "archive":
        context["n_below"] = view.tree.n_children(node.uid)
    return context


def move_goals(view: DraftView, node: Node, query: str) -> list[dict[str, Any]]:
    """Possible new parents of an entry that match the query, each with the reason if it is not allowed."""
    nodes = find_entries(view, query, most=_MOST_GOALS * 3) if query else _usual_goals(view, node)
    goals = []
    for goal in nodes[:_MOST_GOALS]:
        lineage = view.tree.lineage(goal)
        goals.append(
            {
                "node": goal,
                "path": "/" + "/".join(step.name for step in lineage[1:]),
                "refused": _why_not(view, node, goal, lineage),
                "is_current": goal.uid == node.parent_uid,
            }
        )
    return goals


def _usual_goals(view: DraftView, node: Node) -> list[Node]:
    """Possible new parents before a query is typed: the entry's ancestors, and groups beside it and its parent."""
    ancestors = view.tree.lineage(node)[:-1]
    near = [view.tree.node_at(child) for step in ancestors[-2:] for child in view.places(step.uid)[:_MOST_GOALS]]
    goals = {each.uid: each for each in [*ancestors[::-1], *near] if each.uid != node.uid and each.is_group}
    return list(goals.values())


def _why_not(view: DraftView, node: Node, goal: Node, lineage: Sequence[Node]) -> str:
    """Why the entry can't be moved to `goal`; empty if it can."""
    if goal.uid == node.parent_uid:
        return _("it is there now")
    if any(step.uid == node.uid for step in lineage):
        return _("is inside it")
    if goal.kind == "reserve":
        return _("a reserve has no children")
    if not view.may_divide(goal):
        return _("outside your rights")
    return ""


def archived_lines(view: DraftView) -> list[dict[str, Any]]:
    """Topmost entries that this draft archives; each can be restored."""
    gone = {uid: before for uid, (before, after) in view.tree.changes.items() if before and after is None}
    tops = [before for before in gone.values() if before.parent_uid not in gone]
    return [{"uid": node.uid, "name": node.name} for node in tops if view.sees_before(node)][:20]


def neighbours(view: DraftView) -> list[str]:
    """Sentences on other open drafts that edit the same entries."""
    named_uids = drafts.named_uids(view.draft.operations)
    access = ChangeSetAccess(view.policy, view.actor, view.at)
    others = drafts.list_neighbours(view.draft, since=view.at - _NEIGHBOURS_FOR)[:3]
    titles = titles_of([each for each in others if access.may_see(each)], actor=view.actor, at=view.at)
    sentences = []
    for other in others:
        shared = [view.tree.get(UUID(uid)) for uid in sorted(named_uids & drafts.named_uids(other.operations))]
        names = [node.name for node in shared if node is not None and view.sees(node)]
        if not names:
            continue
        what = f"{names[0]} (“{titles[other.pk].text}”)" if other.pk in titles else names[0]
        words = {"who": display_name(other.author_name), "entry": what}
        sentences.append(_("%(who)s is also changing %(entry)s.") % words)
    return sentences


def _with_more(drawn: Sequence[DraftLine], page: DraftPage) -> Any:
    """Yield the rows, with a "load more" row after the last shown descendant of each group that has more."""
    waiting = {row.parent_uid: row for row in page.more}
    groups: list[tuple[int, Any]] = []

    for line in drawn:
        while groups and line.row.level <= groups[-1][0]:
            yield _more_row(groups.pop()[1])
        yield line
        more_row = waiting.pop(line.row.node.uid, None)
        if more_row is not None:
            groups.append((line.row.level, more_row))
    while groups:
        yield _more_row(groups.pop()[1])
    for more in waiting.values():
        yield _more_row(more)


def _more_row(more: Any) -> dict[str, Any]:
    return {"more": more, "guides": more.level - 1}


def subpage_context(view: DraftView, title: str) -> dict[str, Any]:
    """Context of a page below the editor's: its bar, the crumbs and the way back."""
    url, bar = draft_url(view.draft.pk), bar_context(view)
    return {
        **bar,
        "crumbs": [
            {"label": view.policy.name, "url": reverse("pages:policy", kwargs={"policy": view.policy.slug})},
            {"label": bar["title"], "url": url},
            {"label": title},
        ],
        "back_url": url,
    }
