"""Twenty people who draft and publish in one policy at the same time: no deadlock, and no lost database is reported."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import Client

from apps.accounts import audit_log
from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.policies import services
from apps.policies.models import Policy, Revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.stored import load_tree
from tests.examples import first
from tests.instants import AT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

N_PEOPLE, N_ROUNDS = 20, 3
PATH = "/api/v1/policies/grid/changesets"
JSON = "application/json"


@pytest.fixture
def grid(transactional_db: None) -> Policy:
    children = [{"name": f"user{n:02}", "kind": "user", "shares": 1} for n in range(N_PEOPLE)]
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    document = {"root": {"name": "grid", "children": children}}
    services.publish_document(policy_slug="grid", document=document, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")


def n_deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def body(entry: str, shares: int) -> dict[str, Any]:
    operations = [{"op": "set_shares", "entry": entry, "shares": shares}]
    head = Policy.objects.values_list("head_number", flat=True).get(slug="grid")
    return {"base_revision": head, "operations": operations, "reason": "r"}


def edit(client: Client, entry: str, shares: int) -> str:
    """Draft a change of an entry and publish it: "published", or the code of the refusal."""
    draft = client.post(PATH, body(entry, shares), content_type=JSON)
    if draft.status_code != 201:
        return f"draft: {draft.json()['code']}"
    done = client.post(f"{PATH}/{draft.json()['id']}/publish", {}, content_type=JSON)
    return "published" if done.status_code == 200 else str(done.json()["code"])


@pytest.mark.parametrize("is_one_entry", first(1, [True, False]), ids=["one entry", "own entries"])
@pytest.mark.fault("F16")
def test_people_who_draft_and_publish_at_once_never_deadlock(grid: Policy, is_one_entry: bool) -> None:
    clients = []
    for n in range(N_PEOPLE):
        client = Client()
        client.force_login(User.objects.create_user(f"person{n}", is_superuser=True))
        clients.append(client)
    before = n_deadlocks()
    answers: list[str] = []
    barrier = threading.Barrier(N_PEOPLE)

    def work(n: int) -> None:
        try:
            barrier.wait(60)
            for round in range(N_ROUNDS):
                answers.append(edit(clients[n], "/user00" if is_one_entry else f"/user{n:02}", 100 * n + round + 2))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(N_PEOPLE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    found = Counter(answers)
    assert n_deadlocks() == before
    assert sum(found.values()) == N_PEOPLE * N_ROUNDS
    assert set(found) <= ({"published", "edit_conflict"} if is_one_entry else {"published"}), found
    assert Revision.objects.filter(policy=grid).count() == 2 + found["published"]
    assert load_tree(grid, 2 + found["published"]) is not None
    assert audit_log.check_chain(at=AT).broken_id is None


def test_a_draft_is_committed_while_another_transaction_holds_the_policy_and_waits_for_the_log(grid: Policy) -> None:
    """The order of the two locks is the same on both roads, however they are interleaved."""
    holds, may_go_on = threading.Event(), threading.Event()
    problems: list[BaseException] = []

    def publish_slowly() -> None:
        try:
            with transaction.atomic():
                lock_policy(grid.pk)
                holds.set()
                may_go_on.wait(30)
                audit_log.record(actor=COMMAND, verb="test.published", at=AT)
        except BaseException as error:
            problems.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=publish_slowly)
    thread.start()
    holds.wait(30)
    client = Client()
    client.force_login(User.objects.create_user("drafter", is_superuser=True))
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    draft: Any = client.post(PATH, body("/user00", 7), content_type=JSON)
    may_go_on.set()
    thread.join(30)
    assert (draft.status_code, problems) == (201, [])
