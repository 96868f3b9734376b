"""Which conflicts an actor reads, and which names in them: what became hidden since the base is not named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.changesets.conflicts import FieldConflict
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns

HIDDEN = FieldConflict(None, "an entry outside your view", "entry", None, None, None, can_keep=False)


def shown_conflicts(
    found: Sequence[FieldConflict], *, policy: Policy, base: TreeColumns, head: TreeColumns, actor: Actor, at: datetime
) -> list[FieldConflict]:
    """Those that the actor may read, by the rights of now; where it is none of them, that there is one."""
    seen = [visible_entries(policy=policy, tree=tree, actor=actor, at=at) for tree in (base, head)]
    access = _BothSides(*seen)
    return [access.without_hidden_names(each) for each in found if access.shows(each)] or [HIDDEN]


def refuse_hidden(shown: Sequence[FieldConflict], work: Callable[[], object]) -> None:
    """Where no conflict may be shown, answer as if there were none: a changed hidden entry like an unchanged one, the
    name of a hidden entry like an unused one. work: applies the operations with the actor's rights.

    Raises:
        NotAllowed: `partial_view`.
        NotFound: an operation is about an entry that the actor doesn't see.
    """
    if list(shown) == [HIDDEN]:
        work()


@dataclass(frozen=True)
class _BothSides:
    base: Visibility
    head: Visibility

    def shows(self, conflict: FieldConflict) -> bool:
        """Whether the actor sees every entry that it names, and may learn which names exist where it says so."""
        if not all(self._sees(uid) for uid in (conflict.entry, conflict.beside) if uid is not None):
            return False
        at = None if conflict.beside is None else self.head.tree.index_of_uid(conflict.beside)
        return conflict.field != "name" or at is None or self.head.may_name_below(at)

    def _sees(self, uid: UUID) -> bool:
        """Where the entry is now, else where it was; what the change set itself brings is in neither tree."""
        for side in (self.head, self.base):
            i = side.tree.index_of_uid(uid)
            if i is not None:
                return side.may_see(i)
        return True

    def without_hidden_names(self, conflict: FieldConflict) -> FieldConflict:
        """Lists of children without those that the actor doesn't see."""
        if conflict.field != "children" or conflict.entry is None:
            return conflict
        was, mine, is_now = conflict.base, conflict.mine, conflict.theirs
        uid = conflict.entry
        return replace(
            conflict,
            base=_seen_children(self.base, uid, was),
            mine=_seen_children(self.base, uid, mine),
            theirs=_seen_children(self.head, uid, is_now),
        )


def _seen_children(sees: Visibility, uid: UUID, names: Any) -> Any:
    i = sees.tree.index_of_uid(uid)
    if i is None or not isinstance(names, list):
        return names
    return [name for name in names if (child := sees.tree.child_named(i, name)) is None or sees.may_see(child)]
