"""Random whole trees with nasty names, for what reads, writes and compares them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from uuid import UUID

from hypothesis import strategies as st

from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import clean_name, new_name_problem
from apps.policies.tree.terms import Dates, MembershipRule
from apps.policies.tree.working_tree import columns_of

NASTY = [
    "=1+1",
    "@SUM(A1)",
    "+x",
    "-x",
    "'=x",
    "''",
    "'",
    '"',
    "a:b",
    "a,b",
    "a;b",
    "O'Neil",
    "R&D",
    "a b",
    "A B",
    "a_b",
    "root",
    "Root",
    "default",
    "NONE",
    "null",
    "true",
    "no",
    "1e5",
    "0x1F",
    "2027-03-31",
    "~",
    "- a",
    "# x",
    "{a}",
    "[a]",
    "&a",
    "*a",
    "!tag",
    "%",
    "å",
    "Å",
    "名前",
    "＝x",
    "a\\b",
    "a\u00a0b",
    "\ufeffx",
    "\ufffe",
    "x" * 128,
    "X",
    "x",
    "_",
    ".",
    "a=b",
    "|",
    "parent",
]


def _is_name(text: str) -> bool:
    try:
        return clean_name(text) == text
    except ValueError:
        return False


def _is_new_name(text: str) -> bool:
    return not new_name_problem(text)


names = st.sampled_from(NASTY) | st.text(min_size=1, max_size=6).filter(_is_name)
new_names = names.filter(_is_new_name)
shares = st.none() | st.integers(0, 50).map(float) | st.sampled_from([0.5, 0.1, 1 / 3, 1e-7, 1e15, 2_147_483_647.0])
kinds = st.sampled_from(["group", "user", "vo", "project", "=kind", "reserve", "ja: nej"])
days = st.builds(
    Dates,
    starts_on=st.just(date(2026, 1, 1)),
    ends_on=st.just(date(2027, 3, 31)),
    shares=st.none() | st.just(0.5),
    at_end=st.sampled_from(["keep", "zero", "archive", 2.0]),
)
rules = st.just((MembershipRule(source="c1", group="g*", shares=0.5, archive_after_days=30),))


@st.composite
def trees(draw: st.DrawFn, most: int = 12, pool: list[UUID] | None = None) -> TreeColumns:
    """A tree of up to `most` entries; uids from `pool` if there is one, so that two trees share entries: then each
    name may be given again.
    """
    ids = list(pool or [])
    chosen = new_names if ids else names
    uids = (
        draw(st.permutations(ids))
        if ids
        else draw(st.lists(st.uuids(version=4), min_size=most, max_size=most, unique=True))
    )
    root = ids[0] if ids else uids[0]
    below = [uid for uid in uids if uid != root]
    nodes = [Node(root, None, draw(chosen), "group")]
    taken: set[tuple[UUID, str]] = set()
    for uid in below[: draw(st.integers(0, most - 1))]:
        parent = draw(st.sampled_from(nodes))
        name = draw(chosen)
        if parent.kind == "reserve" or (parent.uid, name) in taken:
            continue
        taken.add((parent.uid, name))
        nodes[nodes.index(parent)] = replace(parent, is_group=True)
        nodes.append(draw(_entries(uid, parent.uid, name)))
    return columns_of(nodes, policy_slug="grid", number=7)


@st.composite
def _entries(draw: st.DrawFn, uid: UUID, parent: UUID, name: str) -> Node:
    kind = draw(kinds)
    if kind == "reserve":
        return Node(uid, parent, name, kind, draw(shares.filter(lambda each: each is not None)), is_group=False)
    scope = draw(st.sampled_from(["", "", "local", "global"]))
    members = draw(st.just(()) | rules)
    return Node(
        uid,
        parent,
        name,
        kind,
        draw(shares),
        is_group=bool(members) or draw(st.booleans()),
        scope=scope,
        scope_sources=draw(st.sampled_from([(), ("c1", "=c2"), ("a;b",)])) if scope else (),
        locked=draw(st.booleans()),
        dates=draw(st.none() | days),
        members=members,
    )
