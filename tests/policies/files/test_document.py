"""Whole policies as documents: there and back, and every wrong document refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.core.errors import DomainError, Invalid, TooLarge
from apps.policies import services
from apps.policies.files.document import read_document
from apps.policies.formats.registry import get_format, read_file, write_file
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from tests.each_case import each_case
from tests.instants import AT
from tests.policies.published import GRID


def rooted(*children: Any, **more: Any) -> dict[str, Any]:
    return {"root": {"name": "root", "children": list(children)}, **more}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["yaml", "json"])
def test_an_exported_policy_equals_the_current_one(policy: Policy, name: str) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "set_scope", "entry": "/physics", "scope": "global", "sources": ["a", "b"]},
        {"op": "lock", "entry": "/biology"},
        {"op": "set_shares", "entry": "/physics/bob", "shares": "parent"},
        {"op": "set_shares", "entry": "/physics/alice", "shares": 1e-7},
        {"op": "add", "parent": "/", "name": "no", "kind": "ja: nej #1"},
        {"op": "set_dates", "entry": "/physics", "dates": {"ends_on": "2027-03-31", "at_end": 1e-9}},
        {"op": "set_members", "entry": "/biology", "members": [{"group": "bio*", "archive_after_days": 30}]},
        {"op": "set_policy", "settings": {"tolerance": {"points": 2}}},
    ]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=COMMAND
    )
    head = services.publish_change_set(id=draft.pk, version=1, at=AT, actor=COMMAND)
    policy.refresh_from_db()
    text = "".join(write_file(get_format(name), load_tree(policy), PolicySettings.from_json(head.settings)))
    read = read_file(get_format(name), text.encode())
    assert services.publish_document(policy_slug="grid", document=read, reason="r", at=AT, actor=COMMAND) == head


@pytest.mark.django_db
def test_a_document_renames_and_moves_entries_by_uid(policy: Policy) -> None:
    before = load_tree(policy)
    bob = before.index_of_path("/physics/bob") or 0
    document = rooted({"name": "labs", "children": [{"name": "rob", "kind": "user", "uid": str(before.uuid(bob))}]})
    services.publish_document(policy_slug="grid", document=document, reason="r", at=AT, actor=COMMAND)
    after = load_tree(Policy.objects.get(slug="grid"))
    assert after.path(after.index_of_uid(before.uuid(bob)) or 0) == "/labs/rob"


@pytest.mark.django_db
def test_a_path_never_matches_an_entry_identified_by_uid_elsewhere(policy: Policy) -> None:
    before = load_tree(policy)
    physics = str(before.uuid(before.index_of_path("/physics") or 0))
    document = rooted({"name": "physics"}, {"name": "fysik", "uid": physics, "children": []})
    services.publish_document(policy_slug="grid", document=document, reason="r", at=AT, actor=COMMAND)
    after = load_tree(Policy.objects.get(slug="grid"))
    assert str(after.uuid(after.index_of_path("/fysik") or 0)) == physics
    assert str(after.uuid(after.index_of_path("/physics") or 0)) != physics


@each_case(
    ("document", "place", "remedy"),
    [
        ([], "root", "is an object"),
        ({"root": {"name": "a/b"}}, "root", "separates"),
        ({"root": 3}, "root", "is an object"),
        (rooted({"name": "a"}, {"name": "a"}), "/: children[1]", "repeated"),
        (rooted({"name": "e\u0301"}, {"name": "\u00e9"}), "/: children[1]", "repeated"),
        (rooted({"name": "a", "children": [{"name": "b", "shares": -1}]}), "/a/b: shares", "from 0 to 1e+15"),
        (rooted({"name": "a", "shares": None}), "/a: shares", "must be a number"),
        (rooted({"name": "a", "shares": "12"}), "/a: shares", "not text"),
        (rooted({"name": False}), "/: children[0]", "in quotes"),
        (rooted({"shares": 1}), "/: children[0]", "nothing"),
        (rooted("a"), "/: children[0]", "must be an entry"),
        (rooted({"name": "a", "weight": 1}), "/a: weight", "known are"),
        (rooted({"name": "a", "children": {"b": 1}}), "/a: children", "must be a list"),
        (rooted({"name": "a", "uid": "1"}), "/a: uid", "leave it out"),
        (rooted({"name": "r", "kind": "reserve", "children": []}), "/r: kind", "no children"),
        (rooted({"name": "r", "kind": "reserve", "shares": "parent"}), "/r: kind", "its own shares"),
        (rooted({"name": "a", "scope": "mars"}), "/a: scope", '"local"'),
        (rooted({"name": "a", "sources": ["x"]}), "/a: sources", "together with a scope"),
        (rooted({"name": "a", "locked": 1}), "/a: locked", "true or false"),
        (rooted(settings={"window": {"length_s": -1}}), "settings.window.length_s", "from 1"),
        (rooted(extra=1), "'extra'", "known are"),
    ],
)
def test_invalid_documents_are_refused_with_location_and_remedy(document: Any, place: str, remedy: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_document(document)
    assert place in refusal.value.message
    assert remedy in refusal.value.message


def test_a_uid_identifies_one_entry() -> None:
    uid = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    with pytest.raises(Invalid, match="is also the uid of /a"):
        read_document(rooted({"name": "a", "uid": uid}, {"name": "b", "uid": uid}))


def test_all_errors_are_reported_together() -> None:
    document = rooted({"name": "a", "shares": -1}, {"name": "b/c"}, {"name": "d", "locked": 2})
    with pytest.raises(Invalid) as refusal:
        read_document(document)
    assert [field.where for field in refusal.value.fields] == ["/a: shares", "/: children[1]", "/d: locked"]


def nested(levels: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": "x"}
    for _ in range(levels - 1):
        entry = {"name": "x", "children": [entry]}
    return rooted(entry)


def test_64_levels_are_read_and_65_refused() -> None:
    assert len(read_document(nested(64)).tree) == 65
    with pytest.raises(Invalid, match="below level 64"):
        read_document(nested(65))


def test_too_many_children_or_kinds_are_refused() -> None:
    with pytest.raises(TooLarge, match="at most 100,000"):
        read_document(rooted(*({"name": str(i)} for i in range(100_001))))
    with pytest.raises(TooLarge, match="different kinds"):
        read_document(rooted(*({"name": str(i), "kind": str(i)} for i in range(1_001))))


def test_a_self_referencing_object_is_rejected_at_the_depth_limit() -> None:
    entry: dict[str, Any] = {"name": "x"}
    entry["children"] = [entry]
    with pytest.raises(Invalid, match="below level 64"):
        read_document({"root": entry})


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("root: {name: a", "yaml", "line 2"),
        ("root: 1\nroot: 2", "yaml", "line 2: the key 'root' is repeated"),
        ("root: 1\n---\nroot: 2", "yaml", "a second document"),
        ("root: &a {name: x}\nother: *a", "yaml", "line 2: aliases"),
        ("a: !!python/object/apply:os.system [ls]", "yaml", "line 1"),
        ('{"root": ', "json", "line 1"),
        ('{"root": {"name": "a", "shares": NaN}}', "json", "NaN"),
        ("[" * 100_000, "json", "nested too deeply"),
        ("[" * 100_000, "yaml", ""),
        ("\x00", "yaml", "can't be read"),
    ],
)
def test_text_that_is_not_a_document_is_rejected_with_its_line(text: str, name: str, found: str) -> None:
    with pytest.raises(Invalid) as refusal:
        get_format(name).read(text)
    assert refusal.value.code == "bad_document"
    assert found in refusal.value.message


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda x: (
        st.lists(x, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "shares", "children", "uid", "scope", "sources", "root", "locked"]), x
        )
    ),
    max_leaves=12,
)


@given(json_like, json_like)
def test_any_input_is_parsed_or_rejected(entry: Any, root: Any) -> None:
    for document in (root, {"root": root}, rooted(entry)):
        _read(document)


def _read(document: Any) -> None:
    try:
        tree = read_document(document).tree
    except DomainError:
        return
    assert len(set(zip(tree.parent.tolist(), tree.name, strict=True))) == len(tree)


def test_the_sample_is_read_as_written() -> None:
    tree = read_document(GRID).tree
    assert [tree.path(i) for i in range(len(tree))] == [
        "/",
        "/biology",
        "/physics",
        "/reserve",
        "/biology/lab",
        "/physics/alice",
        "/physics/bob",
    ]
    assert tree.is_reserve.tolist().index(True) == 3
    assert tree.is_group.tolist() == [True, True, True, False, True, False, False]
