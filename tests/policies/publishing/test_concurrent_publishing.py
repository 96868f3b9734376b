"""Editors at the same moment, and connections that die: nothing half, nothing lost, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.errors import Conflict, DomainError
from apps.policies import services
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.publishing import revisions as publishing
from apps.policies.records import NewChangeSet
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from tests.instants import AT
from tests.policies.published import GRID
from tests.simulation.faults import cut_off

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def grid(transactional_db: None) -> Policy:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=GRID, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")


def draft(*operations: dict[str, Any]) -> ChangeSet:
    return services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=COMMAND
    )


def publish(change_set: ChangeSet) -> Revision:
    return services.publish_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=COMMAND)


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Each in a thread and connection of its own, started together; what each returned or refused."""
    barrier = threading.Barrier(len(calls))
    answers: list[object] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            barrier.wait(10)
            answers[at] = calls[at]()
        except DomainError as error:
            answers[at] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return answers


def test_two_publishes_of_one_change_set_at_once_make_one_revision(grid: Policy) -> None:
    change_set = draft({"op": "lock", "entry": "/physics"})
    answers = at_once(*[lambda: publish(change_set)] * 4)
    assert sum(isinstance(answer, Revision) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Conflict)} == {"already_published"}
    assert Revision.objects.filter(policy=grid).count() == 3


def test_concurrent_editors_of_different_entries_all_publish(grid: Policy) -> None:
    paths = ["/physics", "/biology", "/reserve", "/physics/alice", "/physics/bob"]
    drafts = [draft({"op": "set_shares", "entry": path, "shares": 77}) for path in paths]
    answers = at_once(*[partial(publish, each) for each in drafts])
    assert all(isinstance(answer, Revision) for answer in answers), answers
    grid.refresh_from_db()
    tree = load_tree(grid)
    assert grid.head_number == 7
    assert [float(tree.shares[tree.index_of_path(path) or 0]) for path in paths] == [77] * 5
    assert tree.same_as(load_tree_from_rows(grid))


@pytest.mark.fault("F18")
def test_concurrent_editors_of_one_field_conflict_except_one(grid: Policy) -> None:
    drafts = [draft({"op": "set_shares", "entry": "/physics", "shares": 40 + k}) for k in range(4)]
    answers = at_once(*[partial(publish, each) for each in drafts])
    assert sum(isinstance(answer, Revision) for answer in answers) == 1
    assert (
        sorted(getattr(answer, "code", "") for answer in answers if isinstance(answer, Conflict))
        == ["edit_conflict"] * 3
    )


@pytest.mark.fault("F3")
def test_a_lost_connection_during_publish_leaves_nothing(grid: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    change_set = draft({"op": "archive", "entry": "/physics"})
    counts = [model.objects.count() for model in (Entry, Revision, AuditEvent)]

    def die(**_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "record", die)
        with pytest.raises(DatabaseError):
            publish(change_set)
    connection.close()
    grid.refresh_from_db()
    assert grid.head_number == 2
    assert [model.objects.count() for model in (Entry, Revision, AuditEvent)] == counts
    assert not Entry.objects.filter(until__isnull=False, name="physics").exists()
    assert publish(change_set).number == 3


def test_a_connection_lost_amid_a_copy_is_an_error_of_the_database(
    grid: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all others are: a worker queues its run again then, and doesn't fail it."""
    change_set, row = draft({"op": "set_shares", "entry": "/physics", "shares": 7}), publishing._row

    def cut_off_first(*arguments: Any) -> tuple[Any, ...]:
        cut_off()
        return row(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_row", cut_off_first)
        with pytest.raises(DatabaseError):
            publish(change_set)
    connection.close()
    assert publish(change_set).number == 3
