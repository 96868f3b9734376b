"""A tree of groups and users from what they used. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from apps.mapping.rules.entry_names import entry_name
from apps.policies.tree.stored import TreeColumns
from apps.policies.tree.uids import new_uid

DIGITS = 6  # shares in proportion to use are rounded to this many significant digits


class GroupUsage(NamedTuple):
    """What one user of one group used, in core-seconds."""

    group: str
    user: str
    core_s: float


def propose_tree(used: Sequence[GroupUsage], *, proportional: bool, name: str) -> tuple[dict[str, Any], int, int]:
    """Return the root of a policy document, and how many groups and users it has.

    Shares are all 1, or in proportion to use: core-hours with six significant digits; who used nothing gets 0.
    Accounts without a user (a group's own) add to their group alone.
    """
    groups: dict[str, dict[str, float]] = {}
    own: dict[str, float] = {}
    for row in used:
        group = entry_name(row.group)
        users = groups.setdefault(group, {})
        if row.user:
            user = entry_name(row.user)
            users[user] = users.get(user, 0.0) + row.core_s
        else:
            own[group] = own.get(group, 0.0) + row.core_s
    children = []
    for group, users in sorted(groups.items()):
        total = sum(users.values()) + own.get(group, 0.0)
        members = [
            {"name": user, "kind": "user", "shares": _shares(core_s) if proportional else 1}
            for user, core_s in sorted(users.items())
        ]
        shares = _shares(total) if proportional else 1
        children.append({"name": group, "kind": "group", "shares": shares, "children": members})
    root = {"name": name, "kind": "root", "shares": 1, "children": children}
    return root, len(groups), sum(len(users) for users in groups.values())


def operations_towards(tree: TreeColumns, root: dict[str, Any]) -> list[dict[str, Any]]:
    """Operations that add what a proposed root has and the tree lacks, and set the shares of what both have."""
    operations: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], int | None, str]] = [(root, 0, str(tree.uuid(0)))]
    while waiting:
        node, place, uid = waiting.pop()
        for child in node.get("children", ()):
            known = None if place is None else tree.child_named(place, child["name"])
            if known is None:
                child_uid = str(new_uid())
                added = {key: child[key] for key in ("name", "kind", "shares")}
                is_group = "children" in child
                operations.append({"op": "add", "parent": uid, "uid": child_uid, "is_group": is_group, **added})
            else:
                child_uid = str(tree.uuid(known))
                if tree.inherit[known] or tree.shares[known] != child["shares"]:
                    operations.append({"op": "set_shares", "entry": child_uid, "shares": child["shares"]})
            waiting.append((child, known, child_uid))
    return operations


def _shares(core_s: float) -> float:
    """Core-hours, rounded: 214806.123 → 214806."""
    return float(f"{Decimal(core_s) / 3600:.{DIGITS}g}")
