"""A user who doesn't see all entries below another learns no name there: a taken name is refused like a free one."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.federation.mounts.services import make_mount
from apps.policies.changesets.conflicts import FieldConflict, shown_conflicts
from apps.policies.changesets.lifecycle import open_conflicts, rebase_change_set
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.instants import AT
from tests.security.delegated_world import SLUG, make_world

HIDDEN, FREE = "physics", "chemistry"
LATER = AT + timedelta(minutes=1)
WAYS: dict[str, list[dict[str, Any]]] = {
    "add": [{"op": "add", "parent": "/", "name": "NAME"}],
    "rename": [{"op": "rename", "entry": "/climate", "name": "NAME"}],
    "move": [{"op": "move", "entry": "/climate/cyd", "parent": "/", "name": "NAME"}],
    "move by two steps": [
        {"op": "rename", "entry": "/climate/cyd", "name": "NAME"},
        {"op": "move", "entry": "/climate/NAME", "parent": "/"},
    ],
    "restore": [{"op": "restore", "entry": "GONE", "parent": "/", "name": "NAME"}],
}


@pytest.fixture
def people(db: None) -> dict[str, Actor]:
    """The world of delegates, and an entry that was archived below /climate."""
    people = make_world()
    for operation in ({"op": "add", "parent": "/climate", "name": "gone"}, {"op": "archive", "entry": "/climate/gone"}):
        publish_operations(policy_slug=SLUG, operations=[operation], reason="r", at=AT, actor=people["cleo"])
    return people


def named(operations: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    gone = str(Entry.objects.get(name="gone").uid)
    return json.loads(json.dumps(operations).replace("NAME", name).replace("GONE", gone))  # type: ignore[no-any-return]


def head_number() -> int:
    return int(Policy.objects.get(slug=SLUG).head_number)


def answer(do: Any, name: str) -> tuple[Any, ...]:
    """What an attempt says, without the name that was sent and what differs between any two answers."""
    try:
        return ("done", str(do(name)).replace(name, "NAME"))
    except DomainError as error:
        refusal = (type(error).__name__, error.code, error.message, error.fields)
        return tuple(str(each).replace(name, "NAME") for each in refusal)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by", ["cleo", pytest.param("lea", marks=pytest.mark.deep)])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_hidden_taken_name_is_answered_like_a_free_one(
    people: dict[str, Actor], way: str, by: str, at_once: bool
) -> None:
    def attempt(name: str) -> str:
        asked: dict[str, Any] = {"policy_slug": SLUG, "at": AT, "actor": people[by]}
        operations = named(WAYS[way], name)
        if at_once:
            publish_operations(**asked, operations=operations, reason="r")
        else:
            make_change_set(**asked, new=NewChangeSet(operations=operations, reason="r"))
        return ""

    hidden, free = answer(attempt, HIDDEN), answer(attempt, FREE)
    assert hidden == free
    assert hidden[1] == "partial_view"


def test_mounts_disclose_no_names_and_files_need_full_visibility(people: dict[str, Actor]) -> None:
    def mount(name: str) -> object:
        return make_mount(
            policy_slug=SLUG,
            entry=f"/{name}",
            url="https://vo.example/p",
            issuer="vo.example",
            publication="p",
            fingerprint="0" * 64,
            reason="r",
            at=AT,
            actor=people["cleo"],
        )

    def read_file(name: str) -> object:
        root = {"name": "grid", "children": [{"name": name, "children": []}]}
        return import_policy(
            file=FileImport(
                policy_slug=SLUG, format="json", content=json.dumps({"root": root}).encode(), keep_missing=True
            ),
            reason="r",
            at=AT,
            actor=people["cleo"],
        )

    assert answer(mount, HIDDEN) == answer(mount, FREE)
    assert answer(mount, FREE)[1] == "not_found"
    assert answer(read_file, HIDDEN) == answer(read_file, FREE)
    assert answer(read_file, FREE)[1] == "partial_view"


def test_rest_and_the_editor_answer_alike(people: dict[str, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", LATER.isoformat())
    client, cleo = Client(), people["cleo"]
    assert cleo.user is not None
    client.force_login(cleo.user, backend="django.contrib.auth.backends.ModelBackend")
    own = [{"op": "set_shares", "entry": "/climate/cyd", "shares": 7}]
    draft = make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=own, reason="r"), at=AT, actor=cleo)

    def by_rest(name: str) -> tuple[Any, ...]:
        sent = {"base_revision": head_number(), "operations": named(WAYS["add"], name), "reason": "r"}
        found = client.post(f"/api/v1/policies/{SLUG}/changesets", sent, content_type="application/json")
        return found.status_code, {**found.json(), "request_id": "", "instance": ""}

    def by_editor(name: str) -> tuple[Any, ...]:
        root = str(load_tree(Policy.objects.get(slug=SLUG)).uuid(0))
        draft.refresh_from_db()
        sent = {"version": draft.version, "op": "add", "parent": root, "name": name}
        found = client.post(f"/changes/{draft.pk}/edit/_operation", sent)
        refusal = found.context["refusal"]
        return found.status_code, refusal.code, str(refusal.message)

    for way, status in ((by_rest, 403), (by_editor, 403)):
        hidden, free = way(HIDDEN), way(FREE)
        assert hidden == free
        assert hidden[0] == status


def test_a_taken_name_is_reported_with_full_visibility(people: dict[str, Actor]) -> None:
    for by, parent, name in (("cleo", "/climate", "cyd"), ("admin", "/", HIDDEN)):
        operations = [{"op": "add", "parent": parent, "name": name}]
        with pytest.raises(DomainError) as refused:
            make_change_set(
                policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=people[by]
            )
        assert refused.value.code == "name_taken"
        make_change_set(
            policy_slug=SLUG,
            new=NewChangeSet(operations=[{**operations[0], "name": "new"}], reason="r"),
            at=AT,
            actor=people[by],
        )
    below_a_new_one = [
        {"op": "add", "parent": "/climate", "name": "ocean"},
        {"op": "add", "parent": "/climate/ocean", "name": "waves"},
    ]
    make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=below_a_new_one, reason="r"), at=AT, actor=people["cleo"]
    )


DRAFTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "archived since": (
        {"op": "set_shares", "entry": "/physics/seasonal", "shares": 3},
        {"op": "archive", "entry": "/physics/seasonal"},
    ),
    "renamed since": (
        {"op": "rename", "entry": "/physics/seasonal", "name": "yearly"},
        {"op": "rename", "entry": "/physics/seasonal", "name": "monthly"},
    ),
    "filled since": (
        {"op": "archive", "entry": "/physics/seasonal"},
        {"op": "add", "parent": "/physics/seasonal", "name": "monthly"},
    ),
}


def drafted_before_sight_was_lost(people: dict[str, Actor], operation: dict[str, Any]) -> ChangeSet:
    """By cleo, who had a role at the root then, and has it no more."""
    policy = Policy.objects.get(slug=SLUG)
    role = make_grant(people["cleo"].user, load_tree(policy).uuid(0), "admin", policy=policy, reason="test")
    draft = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[operation], reason="r"), at=AT, actor=people["cleo"]
    )
    role.delete()
    return draft


def follow(draft: ChangeSet, actor: Actor, *, publishes: bool) -> object:
    way = publish_change_set if publishes else rebase_change_set
    return way(id=draft.pk, version=draft.version, at=LATER, actor=actor)


@pytest.mark.parametrize("publishes", [False, True])
@pytest.mark.parametrize("since", DRAFTS)
def test_a_draft_discloses_no_entries_hidden_from_its_author(
    people: dict[str, Actor], since: str, publishes: bool
) -> None:
    """Neither what it was called nor what it is called now; `admin` reads both."""
    mine, theirs = DRAFTS[since]
    draft = drafted_before_sight_was_lost(people, mine)
    publish_operations(policy_slug=SLUG, operations=[theirs], reason="r", at=AT, actor=people["admin"])
    collected = []
    for name in ("cleo", "admin"):
        with pytest.raises(DomainError) as refused:
            follow(draft, people[name], publishes=publishes)
        shown = [conflict.to_json() for conflict in open_conflicts(draft, at=LATER, actor=people[name])]
        collected.append(f"{refused.value.message} {refused.value.fields} {shown}")
    assert not [word for word in ("physics", "seasonal", "monthly", "summer") if word in collected[0]], collected[0]
    assert "seasonal" in collected[1], "what is hidden from one is there for another"
    draft.refresh_from_db()
    assert not open_conflicts(draft, at=LATER, actor=people["cleo"]), "as if the entry had not changed"


@pytest.mark.parametrize("publishes", [False, True])
def test_a_draft_discloses_no_names_taken_after_visibility_was_lost(people: dict[str, Actor], publishes: bool) -> None:
    draft = drafted_before_sight_was_lost(people, {"op": "add", "parent": "/", "name": FREE})
    answers = []
    for name in ("other", FREE):  # the head moves on in both cases
        publish_operations(
            policy_slug=SLUG,
            operations=[{"op": "add", "parent": "/", "name": name}],
            reason="r",
            at=AT,
            actor=people["admin"],
        )
        answers.append(answer(lambda _name: follow(draft, people["cleo"], publishes=publishes), FREE))
    free, taken = answers
    assert free == taken
    assert free[1] == ("not_allowed" if publishes else "partial_view")


def test_a_list_of_children_names_visible_ones(people: dict[str, Actor]) -> None:
    """The root is seen by all users, and the entries of others below it are not."""
    policy = Policy.objects.get(slug=SLUG)
    base = load_tree(policy)
    publish_operations(
        policy_slug=SLUG,
        operations=[{"op": "add", "parent": "/", "name": FREE}],
        reason="r",
        at=AT,
        actor=people["admin"],
    )
    policy.refresh_from_db()
    head = load_tree(policy)
    names = [base.name[i] for i in base.children(0)]
    found = FieldConflict(base.uuid(0), "/", "children", names, names, [*names, FREE])
    lists = {}
    for name in ("cleo", "admin"):
        (shown,) = shown_conflicts([found], policy=policy, base=base, head=head, actor=people[name], at=LATER)
        lists[name] = (shown.base, shown.mine, shown.theirs)
    assert lists["cleo"] == (["climate"], ["climate"], ["climate"])
    assert lists["admin"] == (names, names, [*names, FREE])
