"""Promises and what they taught lose a person's name with the accounts, and are among what is known of a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from apps.accounts.about_person import about_person
from apps.accounts.actor import COMMAND
from apps.accounts.models import Account
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.learned import is_as_rows_teach, predictor_of
from apps.contrib.starts.models import SourceWaits, StartPromise, StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.promises import WaitingJob
from apps.priorities.pseudonyms import pseudonymise_user
from apps.usage.models import Source
from tests.contrib.starts.queues import Reports, TrueJob, listing
from tests.instants import AT

pytestmark = pytest.mark.django_db
WHO = ("mallory", "trent")


@pytest.fixture
def agent(new_scheduler: Callable[[], Scheduler]) -> Reports:
    """Of a scheduler of the namespace `a`, with promises of two people that taught something."""
    for namespace, user in (("a", "mallory"), ("a", "trent"), ("b", "mallory")):
        Account.objects.create(namespace=namespace, user_name=user, group_name="g", first_seen_at=AT)
    scheduler = new_scheduler()
    scheduler.namespace = "a"
    scheduler.save()
    agent = Reports(scheduler)
    jobs = [TrueJob(str(n), 9.0 * n, 9.0 * n + 40 * (n % 5), 9.0 * n + 300, user=WHO[n % 2]) for n in range(80)]
    for minute in range(0, 900, 7):
        agent.take(listing(jobs, minute))
    return agent


def _texts() -> bytes:
    """All that is stored of promises and of what they taught, unpacked."""
    unpack = zstandard.ZstdDecompressor().decompress
    blobs = [bytes(blob) for state in StartState.objects.all() for blob in (state.data, state.opening)]
    blobs += [bytes(waits.data) for waits in SourceWaits.objects.all()]
    rows = repr(list(StartPromise.objects.order_by("pk").values_list())).encode()
    return b"".join([rows, *(unpack(blob) for blob in blobs if blob)])


def _hide(name: str, **more: Any) -> None:
    pseudonymise_user(user_name=name, reason="Asked for.", at=AT, actor=COMMAND, **more)


def test_a_pseudonym_replaces_the_name_in_promises_and_in_what_was_learned(agent: Reports) -> None:
    state = StartState.objects.get()
    source = Source.objects.create(slug="log", name="Log", namespace="a", created_at=AT)
    learned = {"data": state.data, "digest": state.digest, "held": [0, 0], "recent": [0, 0], "n_jobs": 80}
    SourceWaits.objects.create(source=source, from_at=AT, to_at=AT, **learned)
    job = WaitingJob("mallory", 4.0, 7_200.0, "batch")
    before = predictor_of(state).estimate(job, AT.timestamp(), 0.0)
    assert _texts().count(b"mallory") > 40
    _hide("mallory", namespace="a")
    assert b"mallory" not in _texts()
    assert b"trent" in _texts()
    pseudonym = Account.objects.get(namespace="a", is_pseudonym=True).user_name
    assert StartPromise.objects.filter(user=pseudonym).count() >= 20
    assert is_as_rows_teach(agent.scheduler)
    after = predictor_of(StartState.objects.get()).estimate(job._replace(user=pseudonym), AT.timestamp(), 0.0)
    assert (after.bounds_s, after.offers) == (before.bounds_s, before.offers)


def test_what_an_older_release_learned_loses_the_name_before_it_is_made_again(
    agent: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a scheduler that is off nothing makes it again."""
    waits = predictor_of(StartState.objects.get()).waits.known()
    monkeypatch.setattr(saved, "_FORMAT", saved._FORMAT + 1)
    assert _texts().count(b"mallory") > 40
    _hide("mallory", namespace="a")
    assert b"mallory" not in _texts()
    agent.take(listing([], 910))
    assert is_as_rows_teach(agent.scheduler)
    assert predictor_of(StartState.objects.get()).waits.known() == waits


def test_a_name_that_another_account_carries_stays_where_it_may_be_meant(agent: Reports) -> None:
    Account.objects.create(namespace="a", user_name="trent", group_name="h", first_seen_at=AT)
    Account.objects.filter(group_name="g", user_name="trent").update(namespace="b")
    _hide("trent", namespace="b")
    assert b"trent" in _texts(), "his account of the scheduler's namespace keeps the name"
    Scheduler.objects.update(namespace="")
    _hide("mallory", namespace="b")
    assert b"mallory" in _texts(), "the scheduler may mean the account of a"
    _hide("mallory")
    assert b"mallory" not in _texts()


def test_promises_are_among_what_is_known_of_a_person(agent: Reports) -> None:
    known = about_person(name="mallory", actor=COMMAND)["starts.startpromise"]
    hers = StartPromise.objects.filter(user="mallory")
    assert {row["job"] for row in known} == set(hers.values_list("job", flat=True))
    assert known[0]["scheduler__name"] == agent.scheduler.name
    Scheduler.objects.update(namespace="c")
    assert "starts.startpromise" not in about_person(name="mallory", actor=COMMAND)
