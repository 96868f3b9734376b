"""A tree and what is derived from it as columns, which all processes of a host map into memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps import engine
from apps.core.name_index import NameIndex
from apps.engine.tree import Competition, FairshareTree
from apps.policies.tree.columns import ENTRY_COLUMNS, TreeColumns, tree_meta, tree_of
from apps.policies.tree.names import creation_ranks

_FORMAT = 2  # of the columns: another one for other names, types or meanings
_SHAPE = ("parent", "first_child", "child_count")  # of the engine's tree, which the stored one has too
_ENGINE = ("level_offsets", "shares", "inherits", "is_group", "is_reserve", "is_user")


def tree_key(digest: str) -> str:
    """Key of a file with the columns of this tree."""
    return f"tree {digest}, format {_FORMAT}, engine {engine.VERSION}"


def columns_of_tree(tree: TreeColumns) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns and meta, from which `tree_of_columns` makes an equal tree."""
    engine_tree = tree.engine_tree()
    contest, entry, seat, is_whole = engine_tree.competition
    columns = {name: getattr(tree, name) for name in ENTRY_COLUMNS}
    columns |= {"name": tree.names, "first_child": tree.first_child, "child_count": tree.n_children}
    if tree.is_large:
        columns["path"] = tree.all_paths
    columns |= {f"uid_{at}": half for at, half in enumerate(tree.uid_halves)}
    columns |= {"name_hash": tree.name_index.hashes, "name_order": tree.name_index.order}
    columns |= {f"engine.{name}": getattr(engine_tree, name) for name in _ENGINE}
    columns["seat"] = seat
    if not is_whole:
        columns["entry"] = entry
        columns |= {f"contest.{name}": getattr(contest, name) for name in (*_SHAPE, *_ENGINE)}
    return columns, tree_meta(tree)


def tree_of_columns(columns: Mapping[str, Any], meta: Mapping[str, Any], digest: str) -> TreeColumns:
    tree = tree_of(columns, meta, digest)
    uid = tree.uid
    engine_tree = FairshareTree(
        **{name: columns[name] for name in _SHAPE},
        **{name: columns[f"engine.{name}"] for name in _ENGINE},
        seniority=lambda: creation_ranks(uid),
    )
    seat, is_whole = columns["seat"], "entry" not in columns
    contest = engine_tree
    if not is_whole:
        contest = FairshareTree(**{name: columns[f"contest.{name}"] for name in (*_SHAPE, *_ENGINE)})
    vars(engine_tree)["competition"] = Competition(contest, columns.get("entry", seat), seat, is_whole)
    vars(tree).update(
        n_children=columns["child_count"],
        first_child=columns["first_child"],
        is_reserve=engine_tree.is_reserve,
        uid_halves=tuple(columns[f"uid_{at}"] for at in range(3)),
        name_index=NameIndex(tree.name, columns["name_hash"], columns["name_order"]),
        _engine_tree=tree.owning(engine_tree),
    )
    if "path" in columns:
        vars(tree)["all_paths"] = columns["path"]
    return tree
