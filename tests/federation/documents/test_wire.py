"""A published document, and what is rejected in it."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.core.errors import DomainError, TooLarge
from apps.core.signing import BadDocument, SigningKey, open_document, sign_document
from apps.federation.documents.wire import Head, PolicyLimits, read_policy, write_policy
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.terms import read_dates, read_members
from apps.policies.tree.working_tree import columns_of
from tests.each_case import each_case
from tests.instants import AT

HEAD = Head("vo-a.example", "lattice", 2, "ab" * 32, AT, AT + timedelta(days=7), ("project.example",))
ROOT, VO, A1, A2, U1, R = (UUID(int=n) for n in range(1, 7))
DATES = {"ends_on": "2027-01-01", "at_end": "archive"}


def tree_with(**more: Any) -> TreeColumns:
    nodes = [
        Node(ROOT, None, "site"),
        Node(VO, ROOT, "VO-A", "vo", 30.0, scope="global", **more),
        Node(A1, VO, "P-A1", "project", 50.0),
        Node(A2, VO, "P-A2", "project", None, dates=read_dates(DATES)),
        Node(R, VO, "rest", "reserve", 2.5, is_group=False),
        Node(U1, A1, "anna", "user", 1.0, is_group=False),
    ]
    return columns_of(nodes)


def document() -> dict[str, Any]:
    tree = tree_with()
    at = tree.index_of_uid(VO)
    assert at is not None
    return write_policy(HEAD, tree, at)


def test_a_subtree_survives_the_round_trip_through_signed_bytes() -> None:
    key = SigningKey(bytes(32))
    opened = open_document(sign_document(document(), key), trusted={key.public.fingerprint})
    found = read_policy(opened.document, PolicyLimits())
    assert found.head == HEAD
    nodes = {node.name: node for node in found.tree.nodes()}
    assert list(nodes) == ["VO-A", "P-A1", "P-A2", "rest", "anna"]
    assert nodes["VO-A"].uid == VO
    assert nodes["VO-A"].scope == "global"
    assert (nodes["P-A1"].shares, nodes["P-A2"].shares, nodes["rest"].shares) == (50.0, None, 2.5)
    assert nodes["P-A2"].dates is None
    assert nodes["anna"].parent_uid == A1


def test_local_settings_of_a_site_are_not_published() -> None:
    rules = read_members([{"people": "anybody", "shares": 1}])
    tree = tree_with(locked=True, scope_sources=("our-slurm",), members=rules)
    found = write_policy(HEAD, tree, 1)["root"]
    assert set(found) == {"uid", "name", "kind", "scope", "children"}
    assert "our-slurm" not in str(found)


def changed(place: str, value: object) -> dict[str, Any]:
    """The document with one value at a dotted place; a place that ends in `-` is removed."""
    found = copy.deepcopy(document())
    *way, last = place.split(".")
    at: Any = found
    for step in way:
        at = at[int(step)] if step.isdigit() else at[step]
    if last.endswith("-"):
        del at[last[:-1]]
    else:
        at[last] = value
    return found


@each_case(
    ("place", "value", "where"),
    [
        ("format", "fairshare-policy/2", "format"),
        ("format-", None, "format"),
        ("extra", 1, "extra"),
        ("issuer-", None, "issuer"),
        ("issuer", "VO A", "issuer"),
        ("issuer", "", "issuer"),
        ("publication", "../../etc", "publication"),
        ("version", 0, "version"),
        ("version", True, "version"),
        ("version", 1.5, "version"),
        ("version", 1, "previous"),
        ("previous", None, "previous"),
        ("previous", "xyz", "previous"),
        ("issued_at", "yesterday", "issued_at"),
        ("issued_at", "2026-11-20T12:00:00+00:00", "issued_at"),
        ("issued_at", "2026-11-20T12:00:61Z", "issued_at"),
        ("expires_at", "2026-11-20T12:00:00Z", "expires_at"),
        ("issuers", "project.example", "issuers"),
        ("issuers", ["x"] * 513, "issuers"),
        ("issuers", ["ok.example", 7], "issuers[1]"),
        ("root.shares", 30, "root.shares"),
        ("root.children.0.shares", -1, "/P-A1: shares"),
        ("root.children.0.shares", "many", "/P-A1: shares"),
        ("root.children.0.uid-", None, "/P-A1"),
        ("root.children.0.uid", str(A2), "/P-A2: uid"),
        ("root.children.0.uid", str(VO), "/P-A1: uid"),
        ("root.children.0.name", "P-A2", "/: children[1]"),
        ("root.children.0.name", "a/b", "/: children[0]"),
        ("root.children.0.name", "<b>P", "/<b>P"),
        ("root.children.0.name", "a\u202eb", "/: children[0]"),
        ("root.children.0.locked", True, "/P-A1"),
        ("root.children.0.members", [{"kind": "each"}], "/P-A1"),
        ("root.children.0.dates", DATES, "/P-A1"),
        ("root.children.0.sources", ["s"], "/P-A1"),
        ("root.children.0.factor", 1, "/P-A1: factor"),
        ("root.children.0.children.0.children.0", 1, ""),
    ],
)
def test_one_invalid_field_rejects_the_whole_document(place: str, value: object, where: str) -> None:
    if place.endswith("children.0.children.0"):
        bad = changed("root.children.0.children.0.children", [1])
    else:
        bad = changed(place, value)
    with pytest.raises(BadDocument) as refused:
        read_policy(bad, PolicyLimits())
    assert any(problem.where.startswith(where) for problem in refused.value.fields), refused.value.fields


def test_a_root_that_is_not_an_entry_is_rejected() -> None:
    roots: list[object] = [None, [], "VO-A", {"name": ""}]
    for root in roots:
        with pytest.raises(BadDocument):
            read_policy({**document(), "root": root}, PolicyLimits())


@pytest.mark.fault("F24")
def test_documents_beyond_the_entry_or_depth_limit_are_rejected() -> None:
    whole = document()
    assert len(read_policy(whole, PolicyLimits(entries=5, levels=2)).tree) == 5
    for limits in (PolicyLimits(entries=4), PolicyLimits(levels=1)):
        with pytest.raises(TooLarge):
            read_policy(whole, limits)


def test_unbounded_depth_is_rejected_without_a_crash() -> None:
    root: dict[str, Any] = {"uid": str(VO), "name": "x", "kind": "group", "children": []}
    at = root
    for n in range(2_000):
        below = {"uid": str(UUID(int=1000 + n)), "name": "x", "kind": "group", "shares": 1, "children": []}
        at["children"].append(below)
        at = below
    with pytest.raises(DomainError):
        read_policy({**document(), "root": root}, PolicyLimits())


def test_the_first_version_has_no_predecessor() -> None:
    first = replace(HEAD, version=1, previous=None)
    tree = tree_with()
    assert read_policy(write_policy(first, tree, 1), PolicyLimits()).head == first
