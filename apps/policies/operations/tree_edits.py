"""State and helpers of operations: the tree being edited, access checks, usage adjustments, membership rules,
percentages.

A membership rule may move accounts only from entries below its reach, which is recorded from the publisher's rights
(see `mapping`). A percentage is set either by changing one entry's shares alone, or by taking shares from others so
that their sum stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid4

from apps.core.errors import DomainError, FieldProblem, Invalid, NotAllowed, NotFound, TooLarge
from apps.policies.settings import RESOURCES, PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH, MOST_CHILDREN, MOST_ENTRIES, RESERVE, clean_name, clean_text
from apps.policies.tree.terms import WHOLE_POLICY, MembershipRule
from apps.policies.tree.working_tree import WorkingTree

MOST_S = 1e18
_NOWHERE = UUID(int=0)


@dataclass(frozen=True, slots=True)
class AddedAdjustment:
    """An adjustment that adds `amount_s` of a resource to an entry's usage at the instant `at`; negative amounts
    credit."""

    uid: UUID
    entry_uid: UUID
    resource: str
    amount_s: float
    at: datetime
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": str(self.entry_uid),
            "resource": self.resource,
            "amount_s": self.amount_s,
            "at": self.at.isoformat(),
            "note": self.note,
            "uid": str(self.uid),
        }


@dataclass(frozen=True, slots=True)
class RevokedAdjustment:
    """The revocation of an adjustment."""

    uid: UUID
    entry_uid: UUID


AdjustmentChange = AddedAdjustment | RevokedAdjustment


def read_adjustment(given: object) -> AddedAdjustment:
    """Parse an adjustment from JSON, without its entry; raise ValueError with the reason if it is invalid."""
    if not isinstance(given, Mapping):
        raise ValueError("must be an object")
    resource, amount = given.get("resource", "cpu_s"), given.get("amount_s")
    if resource not in RESOURCES:
        raise ValueError(f"resource must be one of {', '.join(RESOURCES)}")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount) or amount == 0:
        raise ValueError("amount_s must be a number of seconds of the resource, above 0 to charge, below 0 to credit")
    if abs(amount) > MOST_S:
        raise ValueError(f"amount_s must be from {-MOST_S:g} to {MOST_S:g}")
    try:
        uid = uuid4() if given.get("uid") is None else UUID(str(given["uid"]))
    except ValueError:
        raise ValueError("uid must be a UUID; leave it out") from None
    note = clean_text(given.get("note", ""), 512)
    return AddedAdjustment(uid, _NOWHERE, resource, float(amount), _instant(given.get("at")), note)


def _instant(value: object) -> datetime:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("at must be an instant with its zone, such as 2026-11-20T12:00:00Z") from None
    if at.tzinfo is None:
        raise ValueError("at needs a zone, such as Z or +01:00")
    return at.astimezone(UTC)


class Author(NamedTuple):
    """Limits of new membership rules. reach: uid of the highest entry where the author maps accounts, or `*`."""

    reach: str
    written_at: str


def record_reach(
    rules: Iterable[MembershipRule], *, standing: Sequence[MembershipRule], author: Author | None, tree: WorkingTree
) -> tuple[MembershipRule, ...]:
    """Return rules with their reach, to be stored. standing: the entry's current rules, which keep their reach.

    A reach that is part of a rule (restored from an earlier revision) is limited to the author's. author None: no
    publisher; rules without a reach stay so.
    """
    known = {rule: rule for rule in standing}
    return tuple(known.get(rule) or _with_reach(rule, author, tree) for rule in rules)


def narrow_reach(
    rules: Iterable[MembershipRule], *, author: Author | None, tree: WorkingTree
) -> tuple[MembershipRule, ...]:
    """Limit the reach of a restored entry's rules to the rights of the user who restores it."""
    return tuple(rule if not rule.reach else _with_reach(rule, author, tree) for rule in rules)


def record_reach_of_tree(tree: TreeColumns, head: TreeColumns, at: datetime) -> TreeColumns:
    """Give new rules of a whole tree, which only administrators publish, the reach of the whole policy."""
    author, found = Author(WHOLE_POLICY, at.astimezone(UTC).isoformat()), {}
    for i, rules in tree.members.items():
        before = head.index_of_uid(tree.uuid(i))
        standing = () if before is None else head.members.get(before, ())
        found[i] = record_reach(rules, standing=standing, author=author, tree=WorkingTree(tree))
    return replace(tree, members=found, digest="")


def _with_reach(rule: MembershipRule, author: Author | None, tree: WorkingTree) -> MembershipRule:
    if author is None:
        return rule
    if author.reach == WHOLE_POLICY:
        written_at = rule.written_at if rule.reach and rule.written_at else author.written_at
        return replace(rule, reach=rule.reach or WHOLE_POLICY, written_at=written_at)
    reach = rule.reach if rule.reach and _is_below(rule.reach, author.reach, tree) else author.reach
    return replace(rule, reach=reach, written_at=author.written_at)


def _is_below(reach: str, top: str, tree: WorkingTree) -> bool:
    node = None if reach == WHOLE_POLICY else tree.get(UUID(reach))
    return node is not None and any(str(step.uid) == top for step in tree.lineage(node))


# Significant digits of a scaled number: 60, not 60.00000000000001.
_DIGITS = 12
# Decimals of shares computed from a percentage; more only where these would miss the percentage.
_DECIMALS = 2


def own_shares_for_percent(node: Node, siblings: Sequence[Node], percent: object) -> float:
    """Return shares that give `node` this percentage of its group while its siblings keep theirs.

    w = p · S / (1 − p), with S the sum of the siblings' shares; rounded to two decimals, or to as many as are needed
    for the target to equal the percentage to its own decimals (at least one). Raises ValueError with a remedy.
    """
    wanted = _percentage(percent) / 100
    _require_shares_of_all(node, siblings)
    others = math.fsum(each.shares or 0.0 for each in siblings)
    if others <= 0:
        raise ValueError("its siblings have no shares, so it always has 100 %; give one of them shares")
    if wanted == 1:
        raise ValueError("100 % isn't possible while its siblings have shares: enter less, or take from them")
    exact = wanted * others / (1 - wanted)
    written = f"{100 * wanted:.10g}".partition(".")[2]
    within = 0.5 * 10.0 ** -(2 + min(max(len(written), 1), 4))
    for decimals in range(_DECIMALS, 16):
        shares = round(exact, decimals)
        if (shares > 0 or not wanted) and abs(shares / (shares + others) - wanted) < within:
            return shares
    return _rounded(exact)


def _require_shares_of_all(node: Node, siblings: Sequence[Node]) -> None:
    if node.shares is None:
        raise ValueError("the entry inherits its shares; give it a number first")
    inheriting = [each.name for each in siblings if each.shares is None]
    if inheriting:
        raise ValueError(
            f"its sibling {inheriting[0]!r} inherits its shares, so percentages of the group are undefined"
        )


def shares_for_percent(
    node: Node, siblings: Sequence[Node], givers: Sequence[Node], percent: object
) -> dict[UUID, float]:
    """Return shares that give `node` this percentage of its group, with `givers` scaled in proportion to pay for it.

    new = percent/100 · sum of the group; a giver's share becomes share · (G − (new − old)) / G, with G the sum of the
    givers. All others keep their shares. Raises ValueError with a remedy.
    """
    wanted = _percentage(percent)
    _require_shares_of_all(node, siblings)
    own = node.shares or 0.0
    total = math.fsum(each.shares or 0.0 for each in [node, *siblings])
    if total <= 0:
        raise ValueError("all shares of this group are 0; set some first")
    new = _rounded(wanted / 100 * total)
    if new == own:
        return {}
    pot = math.fsum(giver.shares or 0.0 for giver in givers)
    left = pot - (new - own)
    if left < -1e-9 * total:
        most = 100 * (own + pot) / total
        raise ValueError(f"the siblings that give up shares have too few: at most {most:.6g} % is possible")
    if pot <= 0:
        raise ValueError("the siblings that would gain have no shares to scale; give one of them shares first")
    return {node.uid: new, **_scaled(givers, max(left, 0.0), pot)}


def _percentage(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= 100:  # type: ignore[operator]
        raise ValueError("must be a number from 0 to 100")
    return float(value)  # type: ignore[arg-type]


def _scaled(givers: Sequence[Node], left: float, pot: float) -> dict[UUID, float]:
    """Scale in proportion; the largest giver gets the rounding remainder, so that the sum stays the same."""
    scaled = {giver.uid: _rounded((giver.shares or 0.0) * left / pot) for giver in givers}
    largest = max(scaled, key=lambda uid: scaled[uid])
    others = math.fsum(shares for uid, shares in scaled.items() if uid != largest)
    scaled[largest] = max(_rounded(left - others), 0.0)
    return scaled


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


Archived = Callable[[UUID], Sequence[Node]]


class Touch(NamedTuple):
    """One field that an operation sets or depends on; `uid` None is the policy itself."""

    at: int  # index of the operation
    uid: UUID | None
    field: str


class Guard(Protocol):
    """Access checks before each change; they raise NotAllowed or NotFound."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None: ...

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool: ...

    def may_set_policy(self, index: int) -> None: ...

    def author(self, tree: WorkingTree, node: Node) -> Author | None: ...


class AllowEverything:
    """Allows every operation, for computing without an actor: previews and conflicts."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None: ...

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool:
        return True

    def may_set_policy(self, index: int) -> None: ...

    def author(self, tree: WorkingTree, node: Node) -> Author | None:
        """Return whose rights limit new membership rules of this entry; None for no limit."""
        return None


class Edit:
    """State while operations are applied, with helpers that parse fields and raise errors with their location."""

    def __init__(self, tree: WorkingTree, settings: PolicySettings, guard: Guard, archived: Archived) -> None:
        self.tree, self.settings, self.guard, self.archived = tree, settings, guard, archived
        self.touches: list[Touch] = []
        self.adjusting: list[AdjustmentChange] = []
        self.index = 0
        self.is_stored = False  # the operations were checked when they were stored
        self.verb = ""  # the right that the current operation needs
        self.n_entries = len(tree.base)

    def refusal(
        self, key: str, message: str, *, kind: type[DomainError] = Invalid, code: str | None = None
    ) -> DomainError:
        where = f"operations[{self.index}]" + (f".{key}" if key else "")
        return kind(f"{where}: {message}.", code=code, fields=[FieldProblem(where, message)])

    def touch(self, uid: UUID | None, field: str) -> None:
        self.touches.append(Touch(self.index, uid, field))

    def change(self, node: Node, **fields: Any) -> None:
        """Replace fields of an entry, each of which counts as touched."""
        for field in fields:
            self.touch(node.uid, field)
        self.tree.replace(node, **fields)

    def adjust(self, adjusting: AdjustmentChange) -> None:
        self.adjusting.append(adjusting)
        self.touch(adjusting.entry_uid, "adjusted")

    def clean(self, key: str, rule: Callable[[object], Any], value: object) -> Any:
        try:
            return rule(value)
        except ValueError as error:
            raise self.refusal(key, str(error)) from None

    def find(self, value: object, key: str) -> Node:
        """Return the entry with this uid or path; hidden entries raise the same error as missing ones."""
        node: Node | None = None
        if isinstance(value, str) and value.startswith("/"):
            node = self.tree.find_path(value)
        else:
            node = self.tree.get(self.uid(value, key))
        missing = self.refusal(key, f"there is no entry {str(value)[:140]!r} in this policy", kind=NotFound)
        if node is None:
            raise missing
        try:
            self.guard.may_see(self.tree, node, self.index)
        except NotFound:
            raise missing from None
        return node

    def uid(self, value: object, key: str) -> UUID:
        try:
            return value if isinstance(value, UUID) else UUID(str(value)) if isinstance(value, str) else UUID("")
        except ValueError:
            raise self.refusal(key, "must be an entry's uid, or its path beginning with '/'") from None

    def changeable(self, operation: Mapping[str, Any], *, root_too: bool = False) -> Node:
        node = self.find(operation.get("entry"), "entry")
        if node.parent_uid is None and not root_too:
            raise self.refusal("entry", f"{operation['op']} isn't possible for the root, which has no siblings")
        self._refuse_mounted(node, above=True)
        self.guard.may_change(self.tree, node, self.index, self.verb)
        return node

    def parent_for(self, value: object, height: int) -> Node:
        """Return an entry under which a subtree of this height may be placed; it becomes a group."""
        parent = self.find(value, "parent")
        self._refuse_mounted(parent, above=False)
        self.guard.may_divide(self.tree, parent, self.index, self.verb)
        if parent.kind == RESERVE:
            raise self.refusal("parent", f"{self.tree.path(parent)} is a reserve, which has no children")
        if len(self.tree.lineage(parent)) - 1 + height > MAX_DEPTH:
            raise self.refusal("parent", f"at most {MAX_DEPTH} levels are allowed below the root")
        if self.tree.n_children(parent.uid) >= MOST_CHILDREN:
            raise self.refusal("parent", f"{self.tree.path(parent)} has {MOST_CHILDREN:,} children, the most allowed")
        if not parent.is_group:
            self.touch(parent.uid, "is_group")
            parent = self.tree.replace(parent, is_group=True)
        return parent

    def _refuse_mounted(self, node: Node, *, above: bool) -> None:
        """Refuse changes below a mount, which only its authority may make. above: the mount itself may be changed."""
        lineage = self.tree.lineage(node)
        for step in lineage[:-1] if above else lineage:
            if step.mount is not None:
                message = (
                    f"{self.tree.path(node)} is maintained by {step.mount.issuer}, whose document is mounted at "
                    f"{self.tree.path(step)}: ask there for the change"
                )
                raise self.refusal("entry", message, kind=NotAllowed, code="mounted")

    def free_name(self, parent: Node, value: object, *, own: str = "", unless: UUID | None = None) -> str:
        """Return a valid, unused name for a child of `parent`. own: the entry's current name, which is always allowed.

        Because errors reveal which names exist, only users who may see all names below `parent` may choose one.
        """
        name: str = own if own and value == own else self.clean("name", clean_name, value)
        taken = self.tree.child_named(parent.uid, name)
        if taken is not None and taken.uid == unless:
            return name
        if not self.guard.may_name_below(self.tree, parent):
            message = (
                f"may not be chosen: you don't see all entries below {self.tree.path(parent)}; "
                "ask a manager of that entry"
            )
            raise self.refusal("name", message, kind=NotAllowed, code="partial_view")
        if taken is not None:
            message = f"{self.tree.path(parent)} has a child {name!r} already; siblings need different names"
            raise self.refusal("name", message, code="name_taken")
        return name

    def put(self, nodes: Sequence[Node]) -> None:
        """Add new entries, parents first."""
        self.n_entries += len(nodes)
        if self.n_entries > MOST_ENTRIES:
            raise self.refusal("", f"a policy has at most {MOST_ENTRIES:,} entries", kind=TooLarge)
        for node in nodes:
            self.tree.add(node)
            self.touch(node.uid, "archived")
