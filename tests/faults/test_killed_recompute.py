"""A recompute that is killed anywhere leaves whole snapshots; readers at the same time see nothing else."""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.instants import AT
from tests.killed_process import work_all, work_until_killed
from tests.small_site import Site, push, record

N_READS = 10_000
N_READERS = 2
_PHASES = ("after_load", "after_compute", "after_store", "before_commit")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clock.VARIABLE, AT.isoformat())


def look_up(client: Client, token: str) -> dict[str, Any]:
    path = "/api/v1/policies/grid/priorities?account=alice&account=bob&account=carol"
    answer = client.get(path, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    del found["age_s"]
    return found


def change(site: Site, n: int) -> None:
    """Another revision, and other usage."""
    change = NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics", "shares": 61 + n}], reason="x")
    made = make_change_set(policy_slug="grid", new=change, at=AT, actor=COMMAND)
    publish_change_set(id=made.pk, version=1, at=AT, actor=COMMAND)
    push(site, [record(f"new-{n}", "bob", "physics", 2, at=AT)])


@pytest.mark.fault("F4")
@pytest.mark.parametrize("place", [*_PHASES, "after_commit"])
def test_a_recompute_killed_anywhere_leaves_the_snapshot_before_or_after_it(small_site: Site, place: str) -> None:
    small_site.recompute()
    token, client = small_site.token("priorities:read"), Client()
    before = look_up(client, token)
    change(small_site, 0)
    run = queue_recompute(small_site.policy, at=AT)
    work_until_killed(lambda: work_run_now(run.pk), fault=f"recompute.{place}:kill")
    store.poll()
    killed = look_up(client, token)
    is_committed = place == "after_commit"
    assert (killed == before) == (not is_committed)
    work_all()
    store.poll()
    after = look_up(client, token)
    run.refresh_from_db()
    assert (run.state, run.attempts) == (Run.State.SUCCEEDED, 1 if is_committed else 2)
    assert after["revision"] == before["revision"] + 1
    assert Snapshot.objects.filter(policy=small_site.policy).count() == 2, "none is left of the attempt that was killed"
    if is_committed:
        assert after == killed


@pytest.mark.deep
@pytest.mark.fault("F4")
def test_readers_beside_recomputes_see_whole_snapshots(
    small_site: Site, figure: Callable[[str, float, str], None]
) -> None:
    small_site.recompute()
    token = small_site.token("priorities:read")
    answers: list[dict[str, Any]] = []
    problems: list[BaseException] = []

    def read() -> None:
        client = Client()
        try:
            for _ in range(N_READS // N_READERS):
                answers.append(look_up(client, token))
        except BaseException as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=read) for _ in range(N_READERS)]
    for thread in threads:
        thread.start()
    for n in itertools.count():
        if not any(thread.is_alive() for thread in threads):
            break
        change(small_site, n)
        small_site.recompute()
    assert problems == []
    assert len(answers) == N_READS
    texts = defaultdict(set)
    for answer in answers:
        texts[answer["snapshot"], answer["revision"]].add(json.dumps(answer))
    assert all(len(each) == 1 for each in texts.values()), "one snapshot has one answer"
    revisions = dict(Snapshot.objects.values_list("pk", "revision_number"))
    assert all(revisions[snapshot] == revision for snapshot, revision in texts)
    assert len(texts) > 10
    figure("snapshots seen by 10,000 reads", len(texts), "")
