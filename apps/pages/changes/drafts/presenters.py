"""Edits of a draft as sentences, and its entries as rows with an input for shares and the target before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.changesets.draft_tree import DraftTree
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftRow
from apps.priorities.sentences import numbers
from apps.web.changes.edit_texts import percent_sentence
from apps.web.shell import field_labels, presentation
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, Tolerance
from apps.web.texts.value_texts import date_text

ICONS = {
    "set_shares": ("chg", "pencil"),
    "add": ("add", "plus"),
    "rename": ("chg", "pencil"),
    "move": ("mov", "arrows-move"),
    "archive": ("del", "archive"),
    "restore": ("add", "arrow-back-up"),
    "lock": ("chg", "lock"),
    "set_scope": ("chg", "stack-2"),
    "set_dates": ("chg", "calendar"),
    "set_kind": ("chg", "pencil"),
    "set_members": ("chg", "user-plus"),
    "set_policy": ("chg", "adjustments-horizontal"),
    "adjust_usage": ("chg", "history"),
    "mount": ("chg", "world-share"),
    "allocate": ("chg", "history"),
}
_MOST_LISTED_OPERATIONS = 50
BULLET_WIDTH = 96
SHARES, PERCENT = "shares", "percent"
DECIMALS = 2  # of every share in the editor, typed, shown and computed by its scripts; a tolerance is much wider


@dataclass(frozen=True, slots=True)
class EditLine:
    """One operation of the log; `uid` is that of its entry if the entry still exists."""

    index: int
    op: str
    css: str
    icon: str
    words: str
    uid: UUID | None


def edit_lines(operations: Sequence[Mapping[str, Any]], tree: DraftTree) -> list[EditLine]:
    """The last operations, newest first."""
    first = max(0, len(operations) - _MOST_LISTED_OPERATIONS)
    drawn = []
    for index in range(len(operations) - 1, first - 1, -1):
        operation = operations[index]
        css, icon = ICONS.get(operation["op"], ("chg", "pencil"))
        named = operation.get("entry") or operation.get("uid")
        uid = UUID(str(named)) if named else None
        existing = uid if uid is not None and tree.get(uid) is not None else None
        drawn.append(EditLine(index, operation["op"], css, icon, words_of(operation, tree), existing))
    return drawn


def words_of(operation: Mapping[str, Any], tree: DraftTree) -> str:
    """One operation as a sentence."""
    kind = operation["op"]
    name = _name(operation.get("entry"), tree)
    if kind == "set_shares":
        return _shares(name, operation["shares"], tree)
    if kind == "add":
        words = {"name": operation["name"], "parent": _name(operation["parent"], tree)}
        return _("%(name)s added to %(parent)s with %(shares)s") % {**words, "shares": _amount(operation["shares"])}
    if kind in ("move", "restore"):
        text = _("%(name)s moved to %(parent)s") if kind == "move" else _("%(name)s restored in %(parent)s")
        return text % {"name": name, "parent": _name(operation.get("parent"), tree)}
    if kind == "set_policy":
        return _("Settings: %(parts)s") % {"parts": ", ".join(map(field_labels.setting, operation["settings"]))}
    return _other_text(kind, name, operation)


def _other_text(kind: str, name: str, operation: Mapping[str, Any]) -> str:
    if kind == "rename":
        return _("%(name)s renamed to %(new)s") % {"name": name, "new": operation["name"]}
    if kind == "lock":
        text = _("%(name)s is locked") if operation.get("locked", True) else _("%(name)s is unlocked")
        return text % {"name": name}
    texts = {
        "archive": _("%(name)s archived"),
        "set_scope": _("Scope of %(name)s: %(scope)s"),
        "set_kind": _("%(name)s becomes a %(kind)s"),
        "set_members": _("%(name)s: membership rules"),
        "mount": _("%(name)s: maintainer of the entries below"),
        "adjust_usage": _("Usage of %(name)s corrected"),
        "allocate": _("Allocation of %(name)s changed"),
        "set_dates": _("%(name)s: dates %(dates)s"),
    }
    more = {
        "scope": operation.get("scope") or _("as above"),
        "kind": operation.get("kind", ""),
        "dates": date_text(operation.get("dates")),
    }
    return texts.get(kind, kind + " %(name)s") % {"name": name, **more}


def _shares(name: str, shares: Any, tree: DraftTree) -> str:
    if not isinstance(shares, Mapping):
        return _("%(name)s gets %(shares)s") % {"name": name, "shares": _amount(shares)}
    return percent_sentence(name, shares, lambda uid: _name(uid, tree))


def _amount(shares: Any) -> str:
    if not isinstance(shares, int | float):
        return _("its parent’s shares")
    return ngettext("%(n)s share", "%(n)s shares", 1 if shares == 1 else 2) % {"n": presentation.shares_short(shares)}


def _name(uid: object, tree: DraftTree) -> str:
    """Name of an entry in the draft, or before it; a placeholder for an entry in neither."""
    if uid is None:
        return ""
    try:
        known = UUID(str(uid))
    except ValueError:
        return str(uid)
    node: Node | None = tree.get(known) or tree.before(known)
    return node.name if node is not None else _("an archived entry")


@dataclass(frozen=True, slots=True)
class DraftLine:
    """One entry as the editor shows it. typed: text of its field. target_before: empty if the target is unchanged."""

    row: DraftRow
    index: int
    typed: str
    exact: str
    target: str
    target_before: str
    actual: str
    bar: Bullet | None
    balance: presentation.Balance
    is_zero: bool

    @property
    def guides(self) -> int:
        return self.row.level - 1

    @property
    def is_parent(self) -> bool:
        return self.row.n_children > 0

    @property
    def css(self) -> str:
        return "edited" if self.row.status else "shifted" if self.row.is_shifted else ""


def draw_draft(rows: Sequence[DraftRow], *, tolerance: Tolerance, mode: str = SHARES) -> list[DraftLine]:
    """Draw rows of entries; the bars of siblings have one scale."""
    scales = _scales(rows, tolerance)
    rows_below_header = enumerate(rows, start=2)
    return [_line(row, index, scales, tolerance, mode) for index, row in rows_below_header]


def typed_value(row: DraftRow, mode: str) -> str:
    """The text of the field: shares with six significant digits, percent with two decimals, or *inherit*."""
    if mode == PERCENT and row.node.shares is not None:
        return "" if row.target is None else percent_value(row.target)
    return presentation.shares_short(row.node.shares)


def percent_value(target: float) -> str:
    """A target as a percentage with two decimals, or with two significant digits if it would round to 0."""
    return presentation.shares_short(round(target * 100, DECIMALS) or float(f"{target * 100:.2g}"))


def _line(row: DraftRow, index: int, scales: dict[UUID | None, float], tolerance: Tolerance, mode: str) -> DraftLine:
    is_root, tolerance = row.node.parent_uid is None, tolerance.at(not row.n_children)
    moved = not is_root and _differs(row)
    shares = numbers.compare_shares(row.actual, row.target, decimals=DECIMALS)
    before = numbers.percent(row.target_before, DECIMALS) if row.target_before is not None else _("none")
    balance = presentation.balance(
        row.actual, row.target, has_usage=row.has_usage, tolerance=tolerance, decimals=DECIMALS
    )
    bar = None
    if not is_root and row.target is not None:
        bar = bars.draw(
            actual=row.actual,
            target=row.target,
            maximum=scales.get(row.node.parent_uid, 1.0),
            state=balance.state,
            width=BULLET_WIDTH,
            tolerance=tolerance,
            before=row.target_before if moved else None,
        )
    return DraftLine(
        row=row,
        index=index,
        typed="" if is_root else typed_value(row, mode),
        exact=presentation.shares(row.node.shares),
        target=numbers.percent(1.0, DECIMALS) if is_root else shares.target,
        target_before=before.replace("\u00a0%", "") if moved and before != shares.target else "",
        actual=shares.actual,
        bar=bar,
        balance=balance,
        is_zero=row.node.shares == 0,
    )


def _differs(row: DraftRow) -> bool:
    if row.target is None or row.target_before is None:
        return row.target is not row.target_before
    return abs(row.target - row.target_before) > 1e-12


def _scales(rows: Iterable[DraftRow], tolerance: Tolerance) -> dict[UUID | None, float]:
    groups: dict[UUID | None, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        highest = max(row.target or 0.0, row.target_before or 0.0)
        groups[row.node.parent_uid].append((row.actual or 0.0, highest))
    return {parent: bars.share_scale(pairs, tolerance) for parent, pairs in groups.items()}
