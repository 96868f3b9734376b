"""Editors who look at a policy, think for a while, and then change what they saw, while others change it, too.

An edit that is accepted replaces what its editor saw, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.accounts.actor import COMMAND
from apps.core.errors import DomainError
from apps.policies.changesets.drafts import add_operations, open_draft
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.priority_site import Site
from tests.simulation.random_site import GROUPS, USERS, RandomSite

_MOST_OPEN = 6
_MOST_CONTESTED = 3
_WRITES = {"set_shares": "shares", "rename": "name", "move": "parent_uid"}  # the field of each operation


@dataclass(frozen=True)
class Opened:
    """A page with a tree of a revision, and the draft that it shows, if there is one, in its version."""

    site: Site
    number: int
    tree: TreeColumns
    draft: tuple[int, int] | None


@dataclass(frozen=True)
class Edit:
    """What an editor writes into a field of an entry, where the page showed `seen`."""

    entry: UUID
    field: str
    seen: Any
    new: Any
    operation: dict[str, Any]


class Editors:
    """`act` opens a page or submits one; it returns what was overwritten unseen."""

    def __init__(self, site: RandomSite) -> None:
        self._site = site
        self._opened: list[Opened] = []

    @property
    def draw(self) -> random.Random:
        return self._site.random

    def act(self) -> list[str]:
        if len(self._opened) < 2 or (len(self._opened) < _MOST_OPEN and self.draw.random() < 0.4):
            self._open()
            return []
        page = self._opened.pop(self.draw.randrange(len(self._opened)))
        edit = self._edit(page.tree)
        if edit is None:
            return []
        submit: Callable[[Opened, Edit], list[str]] = self._publish if page.draft is None else self._add_to_draft
        try:
            return submit(page, edit)
        except DomainError as refusal:
            self._site.say("refused edit of", page.site.slug, "at", page.number, str(refusal)[:100])
            return []

    def _open(self) -> None:
        site = self._site.any_policy()
        draft = None
        if self.draw.random() < 0.3:
            with suppress(DomainError):
                row = ChangeSet.objects.filter(policy=site.policy, state="draft").order_by("-pk").first() or open_draft(
                    policy_slug=site.slug, at=self._site.at, actor=COMMAND
                )
                draft = row.pk, row.version
        self._opened.append(Opened(site, site.policy.head_number, load_tree(site.policy), draft))

    def _edit(self, tree: TreeColumns) -> Edit | None:
        if len(tree) == 1:
            return None
        pick = self.draw.choice
        most = _MOST_CONTESTED if self.draw.random() < 0.7 else len(tree)  # many want to change the same few entries
        node = tree.node(self.draw.randrange(1, min(len(tree), most + 1)))
        kind, uid = pick(["set_shares", "set_shares", "rename", "move"]), str(node.uid)
        if kind == "set_shares":
            shares = float(self.draw.randint(0, 9))
            return Edit(node.uid, "shares", node.shares, shares, {"op": kind, "entry": uid, "shares": shares})
        if kind == "rename":
            name = pick([*USERS, *GROUPS, f"x{self._site.number()}"])
            return Edit(node.uid, "name", node.name, name, {"op": kind, "entry": uid, "name": name})
        parent = tree.node(self.draw.randrange(len(tree))).uid
        return Edit(node.uid, "parent_uid", node.parent_uid, parent, {"op": kind, "entry": uid, "parent": str(parent)})

    def _publish(self, page: Opened, edit: Edit) -> list[str]:
        """With the revision that the page was of."""
        page.site.policy.refresh_from_db()
        before = load_tree(page.site.policy)
        new = NewChangeSet(base_revision=page.number, operations=[edit.operation], reason="random")
        made = make_change_set(policy_slug=page.site.slug, new=new, at=self._site.at, actor=COMMAND)
        publish_change_set(id=made.pk, version=made.version, at=self._site.at, actor=COMMAND)
        self._site.say("edit of", page.site.slug, "at", page.number, edit.operation)
        page.site.policy.refresh_from_db()
        return overwritten(edit, before, load_tree(page.site.policy))

    def _add_to_draft(self, page: Opened, edit: Edit) -> list[str]:
        """With the version that the page was of: what another editor has added since isn't hidden by it."""
        assert page.draft is not None
        pk, version = page.draft
        row = ChangeSet.objects.filter(pk=pk, policy=page.site.policy).first()
        before = None if row is None else (row.version, list(row.operations))
        draft = add_operations(
            id=pk, version=version, operations=[edit.operation], at=self._site.at, actor=COMMAND
        )  # refused where it is another version by now
        self._site.say("draft of", page.site.slug, pk, "in version", version, edit.operation)
        if before is None or before[0] != version:
            return [f"version {version} of draft {pk} was written over {before}"]
        if draft.version == version:
            return [f"draft {pk} has version {version} before and after an edit"]
        return []


def overwritten(edit: Edit, before: TreeColumns, after: TreeColumns) -> list[str]:
    """Fields that the edit changed although its editor saw another value of them, or none.

    before: the tree of the head until then. A value that somebody else had set to the same is no loss.
    """
    differences = []
    for place in range(len(after)):
        now = after.node(place)
        at = before.index_of_uid(now.uid)
        was = before.node(at) if at is not None else None
        for field in ("shares", "name", "parent_uid", "scope", "dates", "locked"):
            is_own = (now.uid, field) == (edit.entry, edit.field)
            value, former = getattr(now, field), None if was is None else getattr(was, field)
            if value == former or (is_own and former in (edit.seen, edit.new)):
                continue
            differences.append(f"{field} of {now.name}: {former} was overwritten by {value}, seen was {edit.seen}")
    lost = [before.node(place).name for place in range(len(before)) if after.index_of_uid(before.uuid(place)) is None]
    return differences + [f"{name} was removed by an edit of {edit.field}" for name in lost]
