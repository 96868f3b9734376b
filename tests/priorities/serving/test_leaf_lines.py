"""Lists of all leaves, written by columns, have the lines that are made of each entry alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey
from apps.engine.algorithms import all_algorithms, compute, read_algorithm
from apps.mapping.rules.rule import Rule
from apps.policies.settings import PolicySettings
from apps.priorities.serving import leaf_lines
from apps.priorities.serving.leaf_lines import blocks_of_leaves, every_leaf
from apps.priorities.serving.lookup import AccountNames, AccountQuery, Query, Readable, group_names, names_of
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshot_values import values_of
from apps.web.rest.answers import changed_pieces, leaf_pieces
from apps.web.rest.rendering import dumps
from tests.examples import examples
from tests.mapping.rules.test_placement import _RULES
from tests.priorities.serving.test_identities import _ACCOUNTS, _TREE
from tests.priorities.serving.test_named_entries import _index

AS_OF = datetime(2026, 11, 20, 12, tzinfo=UTC)
_USED = np.flatnonzero((_TREE.n_children == 0) & ~_TREE.is_reserve)


def _snapshot(algorithm: str, rules: list[Rule], known: list[AccountKey], seed: int) -> ServedSnapshot:
    usage, generator = np.zeros(len(_TREE)), np.random.default_rng(seed)
    usage[_USED] = generator.choice([0, 0, 1.5, 900.0, 1e12], len(_USED))
    settings = read_algorithm({"name": algorithm})
    result = compute(_TREE.engine_tree(), usage, algorithm=settings)
    meta = {
        "policy": "grid",
        "revision": 1,
        "as_of": AS_OF.isoformat(),
        "algorithm": settings,
        "n_ranked": result.n_ranked,
        "depth": result.depth,
        "watermarks": {},
    }
    stored = PolicySettings.from_json({"algorithm": dict(settings)})
    values = values_of(result, usage > 9e99, np.zeros(len(_TREE)))
    return ServedSnapshot(1, AS_OF, _TREE, values, _index(_TREE, *rules, known=known), meta, stored)


def _line_by_line(snapshot: ServedSnapshot, readable: Readable | None) -> Iterator[dict[str, Any]]:
    """Lines of each entry alone."""
    mask, names = readable or (None, None)
    for entry in range(len(snapshot.tree)):
        known = snapshot.index.accounts_of(entry)
        if not (snapshot.values.is_ranked[entry] or known) or not (mask is None or mask[entry]):
            continue
        accounts = [key for key in known if names is None or names.includes(key, entry)]
        identities = [key for key in snapshot.index.identities(entry) if names is None or names.includes(key, entry)]
        (piece,) = snapshot.describe(np.array([entry]))
        more = {**piece, "entry": snapshot.tree.path(entry), "identities": list(map(names_of, identities))}
        for key in accounts:
            about = {"account": key.user_name or key.dn or key.group_name, **group_names(key.group_name, key.namespace)}
            is_outsider = snapshot.is_outsider(_query(key), entry)
            yield {**about, **(snapshot.of_outsider(entry, is_restricted=mask is not None) if is_outsider else more)}
        if not accounts:
            yield {"account": None, **more}


_PHYSICS = _TREE.index_of_path("/physics") or 0
_ASKED: list[Query] = ["nobody", "a=b", '"', "\n", "", "\\", *dict.fromkeys(_TREE.name)]


def _query(key: AccountKey) -> AccountQuery:
    return AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)


@st.composite
def _readers(draw: st.DrawFn) -> Readable | None:
    if draw(st.booleans()):
        return None
    bits = st.lists(st.booleans(), min_size=len(_TREE), max_size=len(_TREE))
    mask = np.array(draw(bits))
    own = draw(st.lists(_ACCOUNTS, max_size=3))
    return Readable(mask, draw(st.sampled_from([None, AccountNames(np.array(draw(bits)), tuple(own))])))


@examples(150)
@given(
    st.sampled_from(sorted(all_algorithms())),
    st.lists(_RULES, max_size=3),
    st.lists(_ACCOUNTS, max_size=15),
    _readers(),
    st.integers(0, 99),
    st.sampled_from([7, 5_000]),
)
def test_lines_by_columns_are_those_of_each_entry(
    algorithm: str, rules: list[Rule], known: list[AccountKey], readable: Readable | None, seed: int, block: int
) -> None:
    snapshot = _snapshot(algorithm, rules, known, seed)
    expected = list(_line_by_line(snapshot, readable))
    with patch.object(leaf_lines, "_BLOCK", block):
        assert list(every_leaf(snapshot, readable)) == expected
        assert b"".join(leaf_pieces(snapshot, readable)) == b"".join(dumps(line) + b"\n" for line in expected)
        rows = [row for lines in blocks_of_leaves(snapshot, readable) for row in lines.rows()]
    assert rows == [
        (
            line["account"],
            line.get("group", ""),
            line.get("namespace", ""),
            *(line[name] for name in ("entry", "factor", "rank", "of", "key")),
            orjson.dumps(line.get("identities", [])).decode(),
        )
        for line in expected
    ]


@examples(150)
@given(
    st.sampled_from(sorted(all_algorithms())),
    st.lists(_RULES, max_size=3),
    st.lists(_ACCOUNTS, max_size=15),
    st.lists(st.sampled_from(_ASKED) | _ACCOUNTS.map(_query) | _ACCOUNTS.map(lambda key: key.user_name), max_size=30),
    st.integers(0, 99),
)
@example("aequus", [Rule("glob", _TREE.uuid(0), suffix="/{group}/{user}")], [], _ASKED, 1)
@example("slurm-fair-tree", [Rule("default", _TREE.uuid(_PHYSICS))], [AccountKey("c1", "zed")], ["zed", *_ASKED], 1)
@example("slurm-fair-tree", [Rule("each", _TREE.uuid(0))], [AccountKey("c1", "u110-1", "physics")], _ASKED, 1)
def test_answers_by_columns_are_those_of_each_name(
    algorithm: str, rules: list[Rule], known: list[AccountKey], queries: list[Query], seed: int
) -> None:
    snapshot = _snapshot(algorithm, rules, known, seed)
    expected = orjson.dumps([answer for query in queries for answer in snapshot.lookup([query])])
    assert snapshot.lookup_json(queries) == expected, "made"
    assert snapshot.lookup_json(queries) == expected, "kept"
    assert snapshot.lookup_json([*queries, "somebody else"]) == orjson.dumps(
        [answer for query in [*queries, "somebody else"] for answer in snapshot.lookup([query])]
    ), "some of them kept"


def test_lines_with_numbers_and_names_that_json_writes_otherwise() -> None:
    snapshot = _snapshot("aequus", [], [AccountKey("c\n", 'a"b\\', "g\t"), AccountKey("c", "Zoë")], 1)
    endless = np.where(np.arange(len(_TREE)) % 3, snapshot.values.priority, np.inf)
    vars(snapshot.values)["priority"] = endless
    vars(snapshot.values)["factor"] = np.where(np.arange(len(_TREE)) % 5, snapshot.values.factor, -np.inf)
    expected = b"".join(dumps(line) + b"\n" for line in _line_by_line(snapshot, None))
    assert b"Infinity" in expected
    assert b"".join(leaf_pieces(snapshot, None)) == expected


def test_changed_lines_are_those_that_differ_whoever_reads() -> None:
    known = [AccountKey("c1", "alice", "atlas"), AccountKey("c1", "ann", "cms")]
    before, after = (_snapshot("aequus", [], known, seed) for seed in (1, 2))
    for readable in (None, Readable(np.arange(len(_TREE)) % 2 == 0, None)):
        old, new = (set(map(dumps, _line_by_line(each, readable))) for each in (before, after))
        assert b"".join(changed_pieces(after, before, readable)).splitlines() == [
            line for line in map(dumps, _line_by_line(after, readable)) if line not in old
        ]
        assert new - old
        assert list(changed_pieces(after, after, readable)) == []


def test_accounts_that_lines_do_not_tell_apart_change_once() -> None:
    known = [AccountKey("c1", "alice", "atlas", "", fqan, project) for fqan in ("", "/atlas") for project in ("", "p")]
    rule = Rule("glob", _TREE.uuid(0), suffix="/physics/{group}/{user}")
    before, after = (_snapshot("aequus", [rule], known, seed) for seed in (1, 2))
    lines = [line for line in map(dumps, _line_by_line(after, None)) if b'"atlas","namespace":"c1"' in line]
    assert (len(lines), len(set(lines))) == (4, 1)
    assert list(changed_pieces(after, after, None)) == []
    assert b"".join(changed_pieces(after, before, None)).splitlines().count(lines[0]) == 1
