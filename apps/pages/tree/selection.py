"""One action on several selected entries, as operations of a draft: all of them or none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.forms import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.core.errors import DomainError, FieldProblem, Invalid, TooLarge
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Operation
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftView, find_entries, open_draft_view
from apps.web.changes.edit_refusals import message_of
from apps.web.changes.share_input import read_shares

MOST_SELECTED = 500
_PLACE = re.compile(r"operations\[(\d+)\]")
_DECIMALS = 10


def add_to_draft(
    *, policy_slug: str, uids: Sequence[UUID], fields: Mapping[str, Any], at: datetime, actor: Actor
) -> ChangeSet:
    """Add one operation for each entry to a draft and return it.

    fields: `action`, with its `factor`, `ends_on` or `to`; and `draft`, one of the actor's own. Without `draft` the
    actor's newest draft is used, or a new one.

    Raises:
        TooLarge: more than MOST_SELECTED entries.
        Invalid: an operation is rejected; it names the entry, and nothing is stored.
    """
    if not uids:
        raise Invalid(_("Select at least one entry."), fields=[FieldProblem("e", "is empty")])
    if len(uids) > MOST_SELECTED:
        text = ngettext(
            "%(n)s entry is selected; one action takes at most %(most)s. Narrow the filter.",
            "%(n)s entries are selected; one action takes at most %(most)s. Narrow the filter.",
            len(uids),
        )
        raise TooLarge(text % {"n": f"{len(uids):,}", "most": MOST_SELECTED})
    with transaction.atomic():  # a rejected action creates no draft
        draft = _draft(policy_slug, fields.get("draft", ""), at, actor)
        view = open_draft_view(change_set_id=draft.pk, at=at, actor=actor)
        nodes = [view.require(uid) for uid in dict.fromkeys(uids)]
        nodes, operations = _operations(view, nodes, fields)
        try:
            return drafts.add_operations(id=draft.pk, version=draft.version, operations=operations, at=at, actor=actor)
        except Invalid as error:
            raise Invalid(_message_with_path(error, view, nodes), code=error.code, fields=error.fields) from None


def _draft(policy_slug: str, wanted: str, at: datetime, actor: Actor) -> ChangeSet:
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    own_drafts = [each for each in drafts.list_drafts(policy=policy, at=at, actor=actor) if each.state == "draft"]
    if wanted == "new" or (not wanted and not own_drafts):
        return drafts.open_draft(policy_slug=policy_slug, at=at, actor=actor)
    draft = next((each for each in own_drafts if not wanted or str(each.pk) == wanted), None)
    if draft is None:
        message = _("This draft is no longer open. Choose another one.")
        raise Invalid(message, fields=[FieldProblem("draft", message)])
    return draft


def _operations(view: DraftView, nodes: list[Node], fields: Mapping[str, Any]) -> tuple[list[Node], list[Operation]]:
    """The entries that get an operation, and their operations in the same order."""
    action = fields.get("action", "")
    if action == "scale":
        factor = _factor(fields.get("factor", ""))
        return nodes, [_scaled(view, node, factor) for node in nodes]
    if action == "end":
        ends_on = fields.get("ends_on", "").strip()
        if not ends_on:
            raise _wrong("ends_on", _("Enter a date, such as 2027-03-31."))
        return nodes, [_ending(node, ends_on) for node in nodes]
    if action in ("lock", "unlock"):
        return nodes, [{"op": "lock", "entry": str(node.uid), "locked": action == "lock"} for node in nodes]
    tops = _uppermost(view, nodes)  # entries below a selected one move with it
    if action == "archive":
        return tops, [{"op": "archive", "entry": str(node.uid)} for node in tops]
    if action == "move":
        path = fields.get("to", "")
        goals = find_entries(view, path.strip()) if path.strip().startswith("/") else []
        if not goals:
            raise _wrong("to", _("Enter the path of the new parent, such as /climate."))
        goal = goals[0]
        return tops, [{"op": "move", "entry": str(node.uid), "parent": str(goal.uid)} for node in tops]
    raise _wrong("action", _("Choose an action."))


def _factor(text: str) -> float:
    try:
        factor = read_shares(text)
    except ValidationError as error:
        raise _wrong("factor", error.messages[0]) from None
    if factor == "parent" or not 0 <= float(factor) <= 1_000:
        raise _wrong("factor", _("Enter a factor from 0 to 1000."))
    return float(factor)


def _scaled(view: DraftView, node: Node, factor: float) -> Operation:
    if node.shares is None:
        message = _("%(path)s inherits its shares: give it a number first, or leave it out.")
        raise _wrong("factor", message % {"path": _path(view, node)})
    return {"op": "set_shares", "entry": str(node.uid), "shares": float(f"{node.shares * factor:.{_DECIMALS}g}")}


def _ending(node: Node, ends_on: str) -> Operation:
    """Operation that sets an entry's last day and keeps its first; afterwards it has 0 shares."""
    dates = node.dates.to_json() if node.dates else {"starts_on": None, "shares": None}
    return {"op": "set_dates", "entry": str(node.uid), "dates": {**dates, "ends_on": ends_on, "at_end": "zero"}}


def _uppermost(view: DraftView, nodes: list[Node]) -> list[Node]:
    chosen = {node.uid for node in nodes}
    return [
        node for node in nodes if not chosen & {above.uid for above in view.tree.lineage(node) if above is not node}
    ]


def _message_with_path(error: Invalid, view: DraftView, nodes: Sequence[Node]) -> str:
    """Message of the error with the entry's path instead of the operation's number."""
    places = (_PLACE.search(text) for text in (error.message, *(field.where for field in error.fields)))
    at = next((int(place[1]) for place in places if place), None)
    message = message_of(error)
    return message if at is None or at >= len(nodes) else f"{_path(view, nodes[at])}: {message}"


def _path(view: DraftView, node: Node) -> str:
    return "/" + "/".join(step.name for step in view.tree.lineage(node)[1:])


def _wrong(field: str, message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem(field, message)])


def problem_of(error: DomainError) -> dict[str, Any]:
    """Error message above the rows, and the field that it is about."""
    field = error.fields[0].where if isinstance(error, Invalid) and error.fields else ""
    return {"problem": error.message, "problem_field": field}
