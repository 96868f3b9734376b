"""What the database refuses to everyone: raw SQL past every service."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from apps.policies.models import Entry, Policy, Revision
from apps.policies.tree.columns import TreeColumns
from tests.instants import AT

pytestmark = pytest.mark.django_db
Statement = Callable[[], None]


def sql(statement: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def uid_of(tree: TreeColumns, path: str) -> uuid.UUID:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def insert(
    policy: Policy,
    *,
    parent: uuid.UUID | None,
    name: str = "x",
    shares: float | None = 1,
    uid: uuid.UUID | None = None,
    since: int = 3,
) -> uuid.UUID:
    uid = uid or uuid.uuid4()
    sql(
        "INSERT INTO policies_entry (policy_id, uid, parent_uid, name, kind, shares, is_group, scope, scope_sources,"
        " locked, since) VALUES (%s, %s, %s, %s, 'group', %s, true, '', '[]', false, %s)",
        policy.pk,
        uid,
        parent,
        name,
        shares,
        since,
    )
    return uid


def put(policy: Policy, **fields: Any) -> None:
    insert(policy, **fields)


def close(policy: Policy, *uids: uuid.UUID, until: int = 3) -> None:
    sql(
        "UPDATE policies_entry SET until = %s WHERE policy_id = %s AND until IS NULL AND uid = ANY(%s)",
        until,
        policy.pk,
        list(uids),
    )


def publish_by_hand(policy: Policy, number: int = 3) -> None:
    """Everything that a publish writes besides entries, then what happens at the end of its transaction."""
    sql(
        "INSERT INTO policies_changeset (policy_id, base_number, state, version, operations, reason, author_name,"
        " created_at, updated_at) VALUES (%s, 2, 'published', 1, '[]', '', 'x', %s, %s)",
        policy.pk,
        AT,
        AT,
    )
    n = Entry.objects.filter(policy=policy, until=None).count()
    sql(
        "INSERT INTO policies_revision (policy_id, number, change_set_id, author_name, reason, published_at, n_entries,"
        " settings, tree, tree_digest) VALUES (%s, %s, (SELECT max(id) FROM policies_changeset), 'x', '', %s,"
        " %s, '{}', '', '')",
        policy.pk,
        number,
        AT,
        n,
    )
    sql("UPDATE policies_policy SET head_number = %s WHERE id = %s", number, policy.pk)
    sql("SET CONSTRAINTS ALL IMMEDIATE")


def refused(constraint: str, do: Statement) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        do()
    cause = refusal.value.__cause__
    found = getattr(getattr(cause, "diag", None), "constraint_name", None)
    assert found == constraint, str(refusal.value)


def test_a_valid_manual_publication_passes_the_constraints(policy: Policy, tree: TreeColumns) -> None:
    insert(policy, parent=uid_of(tree, "/physics"), name="new")
    publish_by_hand(policy)
    assert Policy.objects.get(pk=policy.pk).head_number == 3


@pytest.mark.fault("F18")
def test_a_cycle_is_refused(policy: Policy, tree: TreeColumns) -> None:
    physics, biology = uid_of(tree, "/physics"), uid_of(tree, "/biology")

    def make_cycle() -> None:
        close(policy, physics, biology)
        insert(policy, parent=biology, name="physics", uid=physics)
        insert(policy, parent=physics, name="biology", uid=biology)
        publish_by_hand(policy)

    refused("policies_revision_is_a_tree", make_cycle)


@pytest.mark.fault("F18")
def test_an_orphan_is_refused(policy: Policy, tree: TreeColumns) -> None:
    def insert_orphan() -> None:
        insert(policy, parent=uuid.uuid4())
        publish_by_hand(policy)

    def close_parent() -> None:
        close(policy, uid_of(tree, "/physics"))
        publish_by_hand(policy)

    refused("policies_revision_is_a_tree", insert_orphan)
    refused("policies_revision_is_a_tree", close_parent)


def chain(policy: Policy, parent: uuid.UUID, n: int) -> list[uuid.UUID]:
    uids = [parent]
    for k in range(n):
        uids.append(insert(policy, parent=uids[-1], name=f"d{k}"))
    return uids


def test_level_64_is_allowed_and_65_is_refused(policy: Policy, tree: TreeColumns) -> None:
    root = tree.uuid(0)
    with transaction.atomic():
        chain(policy, root, 64)
        publish_by_hand(policy)
        transaction.set_rollback(True)

    def too_deep() -> None:
        chain(policy, root, 65)
        publish_by_hand(policy)

    refused("policies_revision_is_a_tree", too_deep)


def test_a_subtree_that_moves_too_deep_is_refused(policy: Policy, tree: TreeColumns) -> None:
    """Only the moved entry has a new version; its children, one level deeper, would be too deep."""
    low = chain(policy, tree.uuid(0), 63)
    publish_by_hand(policy)
    physics = uid_of(tree, "/physics")

    def move(below: uuid.UUID) -> None:
        sql("SET CONSTRAINTS ALL DEFERRED")
        close(policy, physics, until=4)
        insert(policy, parent=below, name="physics", uid=physics, since=4)
        publish_by_hand(policy, 4)

    with transaction.atomic():
        move(low[62])
        transaction.set_rollback(True)
    refused("policies_revision_is_a_tree", lambda: move(low[63]))


@pytest.mark.parametrize("shares", [float("nan"), float("inf"), -1.0, -1e-300, 1.1e15])
def test_invalid_shares_are_rejected_by_the_database(policy: Policy, tree: TreeColumns, shares: float) -> None:
    refused("policies_entry_shares_finite", lambda: put(policy, parent=tree.uuid(0), shares=shares))


def test_a_second_root_and_a_tree_without_root_are_refused(policy: Policy, tree: TreeColumns) -> None:
    refused("policies_entry_one_root", lambda: put(policy, parent=None))

    def close_all() -> None:
        sql("UPDATE policies_entry SET until = 3 WHERE policy_id = %s AND until IS NULL", policy.pk)
        publish_by_hand(policy)

    refused("policies_revision_is_a_tree", close_all)


def test_equal_names_of_siblings_are_refused(policy: Policy, tree: TreeColumns) -> None:
    refused("policies_entry_sibling_names", lambda: put(policy, parent=tree.uuid(0), name="physics"))


@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        ("", "policies_entry_name"),
        ("a/b", "policies_entry_name"),
        ("a\u202eb", "policies_entry_name_clean"),
        ("a\tb", "policies_entry_name_clean"),
        ("e\u0301", "policies_entry_name_clean"),
    ],
)
def test_confusable_names_are_rejected_by_the_database(
    policy: Policy, tree: TreeColumns, name: str, constraint: str
) -> None:
    refused(constraint, lambda: put(policy, parent=tree.uuid(0), name=name))


def test_two_current_versions_of_one_entry_are_refused(policy: Policy, tree: TreeColumns) -> None:
    physics = uid_of(tree, "/physics")
    refused("policies_entry_current", lambda: put(policy, parent=tree.uuid(0), name="y", uid=physics))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE policies_entry SET shares = 99 WHERE name = 'physics'",
        "UPDATE policies_entry SET until = NULL WHERE until IS NOT NULL",
        "UPDATE policies_entry SET until = 2 WHERE name = 'physics' AND until IS NULL",
        "UPDATE policies_entry SET until = 3, name = 'fysik' WHERE name = 'physics'",
        "UPDATE policies_entry SET id = id + 1000000, until = 3 WHERE name = 'physics'",
        "INSERT INTO policies_entry (policy_id, uid, parent_uid, name, kind, shares, is_group, scope, scope_sources,"
        " locked, since) SELECT policy_id, gen_random_uuid(), parent_uid, 'late', 'group', 1, true, '', '[]', false, 2"
        " FROM policies_entry WHERE name = 'physics'",
    ],
)
@pytest.mark.fault("F20")
def test_history_is_never_rewritten(policy: Policy, statement: str) -> None:
    if "until IS NOT NULL" in statement:
        close(policy, *Entry.objects.filter(name="bob").values_list("uid", flat=True))
        publish_by_hand(policy)
    wanted = "policies_entry_validity" if "until = 2" in statement else "policies_entry_history_stands"
    refused(wanted, lambda: sql(statement))


@pytest.mark.parametrize("table", ["policies_entry", "policies_revision"])
def test_published_rows_are_never_deleted(policy: Policy, table: str) -> None:
    refused(f"{table}_history_stays", lambda: sql(f"DELETE FROM {table}"))  # noqa: S608 - two names of ours


@pytest.mark.parametrize(
    "change", ["reason = 'another'", "tree = ''", "number = 7", "settings = '{}'", "n_entries = 1"]
)
def test_a_revision_is_immutable(policy: Policy, change: str) -> None:
    statement = f"UPDATE policies_revision SET {change} WHERE number = 2"  # noqa: S608 - from the list above
    refused("policies_revision_unchanged", lambda: sql(statement))


def test_entries_without_a_revision_do_not_survive_their_transaction(policy: Policy, tree: TreeColumns) -> None:
    def half() -> None:
        insert(policy, parent=tree.uuid(0))
        sql("SET CONSTRAINTS ALL IMMEDIATE")

    def half_closed() -> None:
        close(policy, uid_of(tree, "/reserve"))
        sql("SET CONSTRAINTS ALL IMMEDIATE")

    refused("policies_policy_head_is_published", half)
    refused("policies_policy_head_is_published", half_closed)


def test_the_head_is_always_the_newest_revision(policy: Policy) -> None:
    def move_head(number: int) -> None:
        sql("UPDATE policies_policy SET head_number = %s", number)
        sql("SET CONSTRAINTS ALL IMMEDIATE")

    refused("policies_policy_head_is_published", lambda: move_head(1))
    refused("policies_policy_head_is_published", lambda: move_head(3))
    refused("policies_revision_is_a_tree", lambda: publish_by_hand(policy, 4))


def test_a_large_publish_is_checked_as_a_whole(policy: Policy, tree: TreeColumns) -> None:
    """Above 2,000 changes the check walks the whole tree instead of each change's way up."""

    def many(parent: uuid.UUID) -> None:
        sql(
            "INSERT INTO policies_entry (policy_id, uid, parent_uid, name, kind, shares, is_group, scope,"
            " scope_sources, locked, since) SELECT %s, gen_random_uuid(), %s, 'n' || k, 'user', 1, false, '', '[]',"
            " false, 3 FROM generate_series(1, 2500) k",
            policy.pk,
            parent,
        )
        publish_by_hand(policy)

    refused("policies_revision_is_a_tree", lambda: many(uuid.uuid4()))
    with transaction.atomic():
        many(tree.uuid(0))
        transaction.set_rollback(True)

    def too_deep() -> None:
        chain(policy, tree.uuid(0), 65)
        many(tree.uuid(0))

    refused("policies_revision_is_a_tree", too_deep)
    assert Revision.objects.filter(policy=policy).count() == 2
