"""Publishing: rows with validity, blobs, merging, conflicts, rights, one audit row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import AuditEvent, User
from apps.core.blobs import CorruptBlob
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.policies import selectors, services
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import ChangeSet, Entry, Grant, Policy, Revision
from apps.policies.publishing.revisions import policy_published
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.tree.columns import TreeColumns, unpack_tree
from apps.policies.tree.stored import load_tree, load_tree_from_rows, tree_cache
from tests.instants import AT
from tests.policies.published import GRID

pytestmark = pytest.mark.django_db


def uid_of(tree: TreeColumns, path: str) -> UUID:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def shares_of(policy: Policy, path: str, number: int | None = None) -> float:
    tree = load_tree(Policy.objects.get(pk=policy.pk), number)
    i = tree.index_of_path(path)
    assert i is not None, path
    return float(tree.shares[i])


def draft(policy: Policy, actor: Actor, *operations: Mapping[str, object], base: int | None = None) -> ChangeSet:
    return services.make_change_set(
        policy_slug=policy.slug,
        new=NewChangeSet(base_revision=base, operations=operations, reason="Because."),
        at=AT,
        actor=actor,
    )


def publish(change_set: ChangeSet, actor: Actor) -> Revision:
    return services.publish_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=actor)


def test_a_change_of_shares_writes_one_row_and_closes_one(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    before = Entry.objects.count()
    revision = services.change_shares(
        policy_slug="grid",
        entry_uid=uid_of(tree, "/physics"),
        shares=45,
        reason="More.",
        base_revision=2,
        at=AT,
        actor=alice,
    )
    assert revision.number == 3
    assert Entry.objects.count() == before + 1
    assert list(Entry.objects.filter(until=3).values_list("name", "shares")) == [("physics", 30.0)]
    assert list(Entry.objects.filter(since=3).values_list("name", "shares", "until")) == [("physics", 45.0, None)]
    assert (shares_of(policy, "/physics", 2), shares_of(policy, "/physics", 3)) == (30, 45)


def test_the_tree_of_every_revision_is_the_same_from_rows_and_from_its_blob(policy: Policy, alice: Actor) -> None:
    publish(draft(policy, alice, {"op": "archive", "entry": "/physics/bob"}), alice)
    publish(draft(policy, alice, {"op": "move", "entry": "/biology/lab", "parent": "/physics", "name": "wet"}), alice)
    publish(draft(policy, alice, {"op": "add", "parent": "/", "name": "årsta", "shares": "parent"}), alice)
    policy.refresh_from_db()
    assert policy.head_number == 5
    for number in range(1, 6):
        assert load_tree(policy, number).same_as(load_tree_from_rows(policy, number)), number
    assert load_tree(policy).index_of_path("/physics/wet") is not None


def test_the_revision_active_at_an_instant_is_found(policy: Policy, alice: Actor) -> None:
    later = AT + timedelta(days=3)
    services.change_shares(
        policy_slug="grid", entry_uid=uid_of(load_tree(policy), "/physics"), shares=1, reason="x", at=later, actor=alice
    )
    policy.refresh_from_db()
    assert selectors.get_revision(policy=policy, at=later - timedelta(seconds=1)).number == 2
    assert selectors.get_revision(policy=policy, at=later).number == 3
    assert selectors.get_revision(policy=policy).number == 3
    with pytest.raises(NotFound):
        selectors.get_revision(policy=policy, at=AT - timedelta(days=1))
    with pytest.raises(NotFound):
        selectors.get_revision(policy=policy, at=99)


def test_publishing_writes_one_audit_row_and_signals_once_after_commit(
    policy: Policy, alice: Actor, django_capture_on_commit_callbacks: object
) -> None:
    received: list[int] = []

    def listen(*, revision: Revision, **_: object) -> None:
        received.append(revision.number)

    policy_published.connect(listen)
    try:
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            change_set = draft(policy, alice, {"op": "lock", "entry": "/physics"})
            publish(change_set, alice)
            assert received == []
    finally:
        policy_published.disconnect(listen)
    assert received == [3]
    events = AuditEvent.objects.filter(verb="policy.published", details__revision=3)
    assert [event.actor_name for event in events] == ["alice"]


def test_a_change_set_is_published_once(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice, {"op": "lock", "entry": "/physics"})
    publish(change_set, alice)
    with pytest.raises(Conflict, match="published already, as revision 3") as refusal:
        publish(change_set, alice)
    assert refusal.value.code == "already_published"
    assert Policy.objects.get(slug="grid").head_number == 3


@pytest.mark.fault("F19")
def test_edits_of_different_fields_merge(policy: Policy, alice: Actor) -> None:
    mine = draft(policy, alice, {"op": "set_shares", "entry": "/physics", "shares": 40})
    theirs = draft(policy, alice, {"op": "rename", "entry": "/physics", "name": "fysik"})
    publish(theirs, alice)
    publish(mine, alice)
    assert shares_of(policy, "/fysik") == 40


@pytest.mark.fault("F18")
def test_edits_of_the_same_field_conflict_and_show_base_mine_and_theirs(policy: Policy, alice: Actor) -> None:
    uid = uid_of(load_tree(policy), "/physics")
    mine = draft(policy, alice, {"op": "set_shares", "entry": "/physics", "shares": 40})
    publish(draft(policy, alice, {"op": "set_shares", "entry": "/physics", "shares": 35}), alice)
    with pytest.raises(EditConflict) as refusal:
        publish(mine, alice)
    assert [c.to_json() for c in refusal.value.conflicts] == [
        {"entry": str(uid), "path": "/physics", "field": "shares", "base": 30.0, "mine": 40.0, "theirs": 35.0}
    ]
    assert shares_of(policy, "/physics") == 35
    mine.refresh_from_db()
    assert mine.state == ChangeSet.State.DRAFT


def test_a_percentage_conflicts_with_any_change_of_its_group(policy: Policy, alice: Actor) -> None:
    percent = {"op": "set_shares", "entry": "/physics", "shares": {"percent": 40, "from": "siblings"}}
    mine = draft(policy, alice, percent)
    publish(draft(policy, alice, {"op": "add", "parent": "/", "name": "new", "shares": 5}), alice)
    with pytest.raises(EditConflict) as refusal:
        publish(mine, alice)
    assert [c.field for c in refusal.value.conflicts] == ["children"]


@pytest.mark.parametrize(
    ("theirs", "mine", "field"),
    [
        (
            {"op": "archive", "entry": "/physics"},
            {"op": "set_shares", "entry": "/physics/bob", "shares": 9},
            "shares",
        ),
        (
            {"op": "set_shares", "entry": "/physics/bob", "shares": 9},
            {"op": "archive", "entry": "/physics"},
            "shares",
        ),
        (
            {"op": "add", "parent": "/physics", "name": "carl"},
            {"op": "archive", "entry": "/physics"},
            "children",
        ),
        (
            {"op": "add", "parent": "/physics", "name": "carl"},
            {"op": "rename", "entry": "/physics/bob", "name": "carl"},
            "name",
        ),
        (
            {"op": "move", "entry": "/physics", "parent": "/biology"},
            {"op": "move", "entry": "/biology", "parent": "/physics"},
            "parent_uid",
        ),
        ({"op": "archive", "entry": "/physics"}, {"op": "add", "parent": "/physics", "name": "carl"}, "archived"),
    ],
)
@pytest.mark.fault("F19")
def test_incompatible_edits_conflict(
    policy: Policy, alice: Actor, theirs: dict[str, object], mine: dict[str, object], field: str
) -> None:
    change_set = draft(policy, alice, mine)
    publish(draft(policy, alice, theirs), alice)
    with pytest.raises(EditConflict) as refusal:
        publish(change_set, alice)
    assert field in [c.field for c in refusal.value.conflicts]


def test_a_stale_version_of_a_change_set_is_refused(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice, {"op": "lock", "entry": "/physics"})
    services.update_change_set(
        id=change_set.pk,
        version=1,
        edit=ChangeSetEdit(operations=[{"op": "lock", "entry": "/biology"}]),
        at=AT,
        actor=alice,
    )
    with pytest.raises(Stale):
        publish(change_set, alice)


def test_publishing_without_a_change_is_refused(policy: Policy, alice: Actor) -> None:
    with pytest.raises(Invalid) as refusal:
        draft(policy, alice, {"op": "set_shares", "entry": "/physics", "shares": 30})
    assert refusal.value.code == "nothing_to_change"


def test_archiving_and_restoring_include_the_subtree(policy: Policy, alice: Actor) -> None:
    before = load_tree(policy)
    uid = uid_of(before, "/physics")
    publish(draft(policy, alice, {"op": "archive", "entry": "/physics"}), alice)
    assert not Entry.objects.filter(name__in=["physics", "alice", "bob"], until=None).exists()
    publish(draft(policy, alice, {"op": "restore", "entry": str(uid)}), alice)
    policy.refresh_from_db()
    assert load_tree(policy).same_as(before)
    assert [change.fields[0] for change in selectors.entry_history(policy=policy, uid=uid)] == [
        ("archived", True, False),
        ("archived", False, True),
        ("archived", None, False),
    ]


def test_siblings_can_swap_their_names_in_one_publish(policy: Policy, alice: Actor) -> None:
    tree = load_tree(policy)
    publish(
        draft(
            policy,
            alice,
            {"op": "rename", "entry": "/physics", "name": "x"},
            {"op": "rename", "entry": "/biology", "name": "physics"},
            {"op": "rename", "entry": "/x", "name": "biology"},
        ),
        alice,
    )
    policy.refresh_from_db()
    assert uid_of(load_tree(policy), "/biology") == uid_of(tree, "/physics")
    assert load_tree(policy).same_as(load_tree_from_rows(policy))


def test_a_document_equal_to_the_policy_changes_nothing(policy: Policy) -> None:
    revision = services.publish_document(policy_slug="grid", document=GRID, reason="Again.", at=AT, actor=COMMAND)
    assert revision.number == 2
    assert ChangeSet.objects.filter(policy=policy).count() == 2


def test_a_document_keeps_named_entries_and_archives_missing_ones(policy: Policy) -> None:
    before = load_tree(policy)
    document = {"root": {"name": "grid", "children": [{"name": "physics", "kind": "vo", "shares": 31, "children": []}]}}
    services.publish_document(policy_slug="grid", document=document, reason="Smaller.", at=AT, actor=COMMAND)
    policy.refresh_from_db()
    after = load_tree(policy)
    assert [after.path(i) for i in range(len(after))] == ["/", "/physics"]
    assert uid_of(after, "/physics") == uid_of(before, "/physics")
    assert after.same_as(load_tree_from_rows(policy))
    assert dict(Revision.objects.filter(policy=policy).values_list("number", "n_changed")) == {1: 1, 2: 6, 3: 6}


def test_settings_are_part_of_the_revision(policy: Policy, alice: Actor) -> None:
    wanted = {"algorithm": {"operator": "combined", "k": 0.25}, "fallback_factor": 0.1}
    revision = publish(draft(policy, alice, {"op": "set_policy", "settings": wanted}), alice)
    assert revision.settings["algorithm"]["k"] == 0.25
    assert revision.settings["window"]["half_life_s"] == 604_800
    assert not Entry.objects.filter(since=revision.number).exists()


def test_one_flipped_bit_in_a_blob_is_detected(policy: Policy) -> None:
    revision = Revision.objects.get(policy=policy, number=2)
    blob = bytearray(revision.tree)
    blob[len(blob) // 2] ^= 1
    with pytest.raises(CorruptBlob):
        unpack_tree(bytes(blob), revision.tree_digest)
    assert len(unpack_tree(bytes(revision.tree), revision.tree_digest)) == 7


def test_entries_stand_in_for_a_damaged_tree(policy: Policy, alice: Actor, caplog: pytest.LogCaptureFixture) -> None:
    before = load_tree(policy)
    blob = bytes(Revision.objects.get(policy=policy, number=2).tree)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # without the guard of revisions
        Revision.objects.filter(policy=policy, number=2).update(tree=blob[:-1] + bytes([blob[-1] ^ 1]))
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    tree_cache.clear()
    assert load_tree(policy).same_as(before)
    assert load_tree(policy).digest == before.digest
    assert len(caplog.records) == 1, "the rebuilt tree is cached"
    publish(draft(policy, alice, {"op": "set_shares", "entry": "/physics", "shares": 7}), alice)
    assert shares_of(policy, "/physics") == 7


@pytest.mark.paper("4.63")
def test_a_manager_divides_only_the_own_subtree(policy: Policy, bob: Actor) -> None:
    publish(draft(policy, bob, {"op": "set_shares", "entry": "/physics/bob", "shares": 7}), bob)
    assert shares_of(policy, "/physics/bob") == 7
    own = draft(policy, bob, {"op": "set_shares", "entry": "/physics", "shares": 90})
    with pytest.raises(NotAllowed):
        publish(own, bob)
    assert shares_of(policy, "/physics") == 30
    refused = AuditEvent.objects.get(outcome="refused")
    assert (refused.actor_name, refused.verb) == ("bob", "policy.published")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "set_shares", "entry": "/biology", "shares": 1},
        {"op": "move", "entry": "/biology/lab", "parent": "/physics"},
        {"op": "archive", "entry": "/reserve"},
        {"op": "add", "parent": "/biology", "name": "x"},
    ],
)
def test_invisible_entries_do_not_exist_for_a_manager(policy: Policy, bob: Actor, operation: dict[str, object]) -> None:
    with pytest.raises(NotFound, match="there is no entry"):
        draft(policy, bob, operation)


@pytest.mark.paper("4.63")
def test_on_an_open_policy_a_manager_still_changes_only_the_own_subtree(policy: Policy, bob: Actor) -> None:
    Policy.objects.update(visibility=Policy.Visibility.TREE)
    change_set = draft(policy, bob, {"op": "set_shares", "entry": "/biology", "shares": 1})
    with pytest.raises(NotAllowed):
        publish(change_set, bob)


def test_rights_are_checked_at_publication(policy: Policy, bob: Actor) -> None:
    change_set = draft(policy, bob, {"op": "set_shares", "entry": "/physics/bob", "shares": 7})
    Grant.objects.update(expires_at=AT)
    with pytest.raises(NotFound):
        publish(change_set, bob)
    assert shares_of(policy, "/physics/bob") == 3


def test_a_locked_entry_refuses_changes_except_by_its_locker(policy: Policy, alice: Actor, bob: Actor) -> None:
    publish(draft(policy, bob, {"op": "lock", "entry": "/physics/bob"}), bob)
    publish(draft(policy, bob, {"op": "set_shares", "entry": "/physics/bob", "shares": 4}), bob)
    publish(draft(policy, bob, {"op": "lock", "entry": "/physics/bob", "locked": False}), bob)
    publish(draft(policy, alice, {"op": "lock", "entry": "/physics/bob"}), alice)
    for operation in (
        {"op": "set_shares", "entry": "/physics/bob", "shares": 9},
        {"op": "lock", "entry": "/physics/bob", "locked": False},
        {"op": "archive", "entry": "/physics/bob"},
    ):
        change_set = draft(policy, bob, operation)
        with pytest.raises(NotAllowed) as refusal:
            publish(change_set, bob)
        assert refusal.value.code == "locked"
    publish(draft(policy, alice, {"op": "set_shares", "entry": "/physics/bob", "shares": 9}), alice)


def test_a_token_stays_within_its_limits(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    def bound(*scopes: str, slug: str = "", subtree: UUID | None = None) -> Actor:
        return Actor(alice.user, "api", TokenBounds("fsh_x", frozenset(scopes), slug, subtree))

    operation = {"op": "set_shares", "entry": "/physics", "shares": 1}
    with pytest.raises(NotAllowed, match="lacks the scope"):
        draft(policy, bound("policies:read"), operation)
    with pytest.raises(NotFound):
        draft(policy, bound("policies:write", slug="other"), operation)
    inside = bound("policies:write", subtree=uid_of(tree, "/physics"))
    own = draft(policy, inside, operation)
    with pytest.raises(NotAllowed):
        publish(own, inside)
    publish(draft(policy, inside, {"op": "set_shares", "entry": "/physics/bob", "shares": 2}), inside)
    with pytest.raises(NotFound):
        draft(policy, inside, {"op": "set_shares", "entry": "/biology", "shares": 2})
    with pytest.raises(NotAllowed):
        services.publish_document(policy_slug="grid", document=GRID, reason="x", at=AT, actor=inside)


def test_users_without_rights_neither_see_nor_publish_a_change_set(
    policy: Policy, alice: Actor, charlie: Actor
) -> None:
    change_set = draft(policy, alice, {"op": "lock", "entry": "/physics"})
    with pytest.raises(NotFound):
        selectors.get_change_set(id=change_set.pk, actor=charlie, at=AT)
    with pytest.raises(NotFound):
        publish(change_set, charlie)
    with pytest.raises(NotFound):
        draft(policy, charlie, {"op": "lock", "entry": "/physics"})
    with pytest.raises(NotAllowed):
        services.make_policy(slug="mine", name="Mine", at=AT, actor=charlie)


def test_states_change_forward_only(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice, {"op": "lock", "entry": "/physics"})
    proposed = services.propose_change_set(id=change_set.pk, version=1, at=AT, actor=alice)
    withdrawn = services.withdraw_change_set(id=change_set.pk, version=proposed.version, at=AT, actor=alice)
    with pytest.raises(Conflict) as refusal:
        publish(withdrawn, alice)
    assert refusal.value.code == "withdrawn"


def test_a_scheduled_change_set_is_not_published_now(policy: Policy, alice: Actor) -> None:
    change_set = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(
            operations=[{"op": "lock", "entry": "/physics"}], reason="Later.", effective_at=AT + timedelta(days=1)
        ),
        at=AT,
        actor=alice,
    )
    with pytest.raises(Invalid) as refusal:
        publish(change_set, alice)
    assert refusal.value.code == "not_due"


def test_publishing_needs_a_reason(policy: Policy, alice: Actor) -> None:
    with pytest.raises(Invalid) as refusal:
        services.change_shares(
            policy_slug="grid",
            entry_uid=uid_of(load_tree(policy), "/physics"),
            shares=1,
            reason=" ",
            at=AT,
            actor=alice,
        )
    assert refusal.value.code == "reason_missing"
    assert str(refusal.value) == "Enter a reason to publish."


def test_deleting_a_user_keeps_their_publications(policy: Policy, alice: Actor) -> None:
    publish(draft(policy, alice, {"op": "lock", "entry": "/physics"}), alice)
    User.objects.get(username="alice").delete()
    revision = Revision.objects.get(policy=policy, number=3)
    assert (revision.author, revision.author_name) == (None, "alice")


def test_reloading_a_tree_queries_only_its_digest(policy: Policy, django_assert_num_queries: object) -> None:
    tree_cache.clear()
    first = load_tree(policy)
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert load_tree(policy) is first
