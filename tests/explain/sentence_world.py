"""A snapshot in memory, without a database, and every sentence about its leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.engine.algorithms import compute, get_algorithm, read_algorithm
from apps.explain.contrasts import Comparison, _compare
from apps.explain.messages import AccountMessages, messages_of
from apps.explain.my_priority import MyPriority, _of_entry
from apps.mapping.rules.account_places import AccountPlaces, unpack_places
from apps.policies.files.document import read_document
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.priorities.selectors.visible_snapshot import VisibleSnapshot
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.serving.lookup import LookupIndex
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshot_values import values_of

AS_OF = datetime(2026, 11, 20, 12, tzinfo=UTC)


def snapshot_of(
    root: Mapping[str, Any], usage: Mapping[str, float], algorithm: Mapping[str, Any]
) -> ServedSnapshot | None:
    """root: a document's tree; usage: core-seconds by path; None where the algorithm takes no such tree.

    Every leaf has an account of the name of its path.
    """
    tree = read_document({"policy": "grid", "root": root}).tree
    if tree.inherit.any() and not get_algorithm(str(algorithm["name"])).takes_inherit:
        return None
    own = np.array([usage.get(tree.path(i), 0.0) for i in range(len(tree))])
    result = compute(tree.engine_tree(), own, algorithm=algorithm)
    leaves = np.flatnonzero((tree.n_children == 0) & ~tree.is_group & ~tree.is_reserve)
    keys = [AccountKey("c1", tree.path(i)) for i in leaves.tolist()]
    places = AccountPlaces(AccountKeys.of(keys), leaves.astype(np.int32), ())
    waiting = np.zeros(len(tree))
    settings = read_algorithm(algorithm)
    meta = {
        "policy": "grid",
        "revision": 1,
        "as_of": AS_OF.isoformat(),
        "algorithm": settings,
        "n_ranked": result.n_ranked,
        "depth": result.depth,
        "watermarks": {},
    }
    return ServedSnapshot(
        snapshot_id=1,
        computed_at=AS_OF,
        tree=tree,
        values=values_of(result, waiting > 0, waiting),
        index=LookupIndex(tree, unpack_places(*places.packed), "places"),
        meta=meta,
        settings=PolicySettings.from_json({"algorithm": dict(settings)}),
    )


@dataclass(frozen=True, eq=False)
class SentenceWorld:
    """A snapshot beside the lines of `/priorities/all`, by path."""

    snapshot: ServedSnapshot

    @cached_property
    def lines(self) -> dict[str, dict[str, Any]]:
        return {line["entry"]: line for line in every_leaf(self.snapshot) if line["rank"] is not None}

    @cached_property
    def leaves(self) -> list[str]:
        """Ranked ones, in the order of the tree."""
        return [path for path in self.lines if self.snapshot.values.is_ranked[self.at(path)]]

    def at(self, path: str) -> int:
        found = self.snapshot.tree.index_of_path(path)
        assert found is not None
        return found

    def rank(self, path: str) -> int:
        return int(self.lines[path]["rank"])

    def factor(self, path: str) -> float:
        """Of any entry, as the tree shows it."""
        return float(self.snapshot.values.factor[self.at(path)])

    def below(self, path: str) -> list[str]:
        """Ranked leaves of an entry, itself if it is one."""
        return [leaf for leaf in self.leaves if leaf == path or leaf.startswith(f"{path}/")]

    def all_before(self, first: str, second: str) -> bool:
        """Every ranked leaf of one has a better rank than every ranked leaf of the other; both have some."""
        ones, others = self.below(first), self.below(second)
        return bool(ones and others) and max(map(self.rank, ones)) < min(map(self.rank, others))

    def competitors(self, path: str) -> list[str]:
        """The entries that an entry is compared with: those with shares of their own below one parent with some."""
        tree = self.snapshot.tree

        def group(i: int) -> int:
            i = int(tree.parent[i])
            while i > 0 and tree.inherit[i]:
                i = int(tree.parent[i])
            return i

        own = self.at(path)
        return [
            tree.path(i)
            for i in range(1, len(tree))
            if i != own and group(i) == group(own) and not tree.inherit[i] and not tree.is_reserve[i]
        ]

    def mine(self, leaf: str) -> MyPriority:
        (result,) = self.snapshot.describe(np.array([self.at(leaf)]))
        about = partial(MyPriority, account=leaf, namespace="c1", policy_slug="grid", policy_name="Grid")
        return _of_entry(self.snapshot, about, {"account": leaf, **result}, None)

    def story(self, mine: MyPriority) -> AccountMessages:
        return messages_of(mine)

    def contrast(self, one: str, other: str) -> Comparison:
        everybody = np.ones(len(self.snapshot.tree), dtype=np.bool_)
        return _compare(
            VisibleSnapshot(Policy(slug="grid"), self.snapshot, everybody, None), self.at(one), self.at(other)
        )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, float]]:
    """A small tree with few different numbers, so that entries tie, and usage at its leaves."""
    root: dict[str, Any] = {"name": "grid", "shares": 1, "children": []}
    groups, count = [(root, "", 0)], [0]
    usage: dict[str, float] = {}
    for number in range(draw(st.integers(2, 11))):
        parent, path, depth = groups[draw(st.integers(0, len(groups) - 1))]
        kind = draw(st.sampled_from(("group", "group", "user", "user", "user", "service", "reserve")))
        shares = draw(st.sampled_from((0, 1, 1, 1, 2, 3, 7, "parent")))
        entry: dict[str, Any] = {"name": f"e{number}", "shares": 1 if kind == "reserve" else shares, "kind": kind}
        count[0] += 1
        entry["uid"] = f"00000000-0000-4000-8000-{count[0]:012d}"
        parent["children"].append(entry)
        if kind == "group" and depth < 4:
            entry["children"] = []
            groups.append((entry, f"{path}/e{number}", depth + 1))
        elif kind != "reserve":
            usage[f"{path}/e{number}"] = draw(st.sampled_from((0, 0, 1, 2, 3, 5, 30, 35, 3000)))
    root["uid"] = "00000000-0000-4000-8000-999999999999"
    return root, usage
