"""Pages and exports are read from a streaming replica: never too old, never past an own change, never hanging."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks
from django.db import connection, connections
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.accounts.actor import COMMAND
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token, make_user, revoke_token
from apps.accounts.token_cache import tokens
from apps.core.postgresql.base import DatabaseWrapper
from apps.core.postgresql.replica import ALIAS, Replica, reading_replica, replica
from apps.web.middleware import replica_reads
from tests.core.replica_servers import ReplicatedDatabase, wait_until
from tests.instants import AT
from tests.priority_site import Site
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/me/tokens/"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, Any]], ReplicatedDatabase]]:
    """Two servers with the database of the first test."""
    made: list[ReplicatedDatabase] = []

    def of(copied: dict[str, Any]) -> ReplicatedDatabase:
        if not made:
            connections.close_all()
            made.append(ReplicatedDatabase(tmp_path_factory.mktemp("replicated"), copied))
        return made[0]

    yield of
    for each in made:
        each.stop()


@pytest.fixture
def pair(
    two_projects: Site,
    servers: Callable[[dict[str, Any]], ReplicatedDatabase],
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> Iterator[ReplicatedDatabase]:
    """The process has the primary as its database, and reads from the replica, which has caught up."""
    own = dict(connection.settings_dict)
    pair = servers(own)
    settings.FAIRSHARE_REPLICA_LAG_S = 60
    with monkeypatch.context() as patch:
        patch.setattr(DatabaseWrapper, "ensure_connection", connect)  # Django's tests refuse databases without a mark
        connections.close_all()
        for name, value in pair.settings_of(pair.primary, own).items():
            patch.setitem(connections.settings["default"], name, value)
        patch.setitem(django_settings.DATABASES, ALIAS, pair.settings_of(pair.replica, own))
        patch.setattr(Replica, "start", lambda self: None)  # each test measures when it wants to
        fresh = Replica()
        for name in ("state", "_samples", "_identity", "_timeline"):
            patch.setattr(replica, name, getattr(fresh, name))
        if not pair.replica.answers():
            pair.replica.start()
        pair.catch_up()
        replica.measure()
        assert not replica.state.refusal(time.monotonic())
        tokens.clear()
        yield pair
        connections.close_all()
        del connections[ALIAS]


def connect(wrapper: DatabaseWrapper) -> None:
    if wrapper.connection is None:
        with wrapper.wrap_database_errors:
            wrapper.connect()


@pytest.fixture
def robin(pair: ReplicatedDatabase) -> Iterator[User]:
    user, _password = make_user(
        username="robin", email="", password="a long enough secret", is_admin=True, actor=COMMAND
    )
    pair.catch_up()
    yield user
    Token.objects.all().delete()
    user.delete()


@pytest.fixture
def browser_of_robin(robin: User, pair: ReplicatedDatabase) -> Client:
    client = sign_in(Client(), robin)
    pair.catch_up()
    replica.measure()
    return client


def token(user: User, name: str, *scopes: str) -> tuple[Token, str]:
    new = NewToken(user=user, name=name, scopes=list(scopes or ("self:read",)), days=9)
    return make_token(new, at=AT, actor=COMMAND)


def shows(client: Client, text: str) -> bool:
    answer = client.get(PAGE)
    assert answer.status_code == 200
    return text in answer.content.decode()


def reads(outcome: str) -> float:
    value: float = replica_reads._reads.labels(outcome)._value.get()
    return value


def is_used() -> bool:
    replica.measure()
    return not replica.state.refusal(time.monotonic())


def readiness() -> dict[str, str]:
    found = Client().get("/readyz").json()["degraded"]
    return {each["code"]: each["message"] for each in found}


def test_pages_are_read_from_it_and_an_own_change_is_seen_at_once(
    pair: ReplicatedDatabase, robin: User, browser_of_robin: Client
) -> None:
    other = sign_in(Client(), robin)
    pair.catch_up()
    pair.pause()
    token(robin, "made elsewhere")
    replica.measure()
    assert not shows(browser_of_robin, "made elsewhere"), "the replica doesn't have it yet"
    assert browser_of_robin.post("/theme/", {"theme": "dark"}).status_code == 303
    assert shows(browser_of_robin, "made elsewhere"), "the primary had it when this browser wrote"
    assert not shows(other, "made elsewhere"), "which wrote nothing"
    pair.catch_up()
    replica.measure()
    before = reads("served")
    assert shows(browser_of_robin, "made elsewhere")
    assert shows(other, "made elsewhere")
    assert reads("served") == before + 2


def test_a_page_does_not_go_back_in_time_after_the_primary_answered(
    pair: ReplicatedDatabase, robin: User, browser_of_robin: Client, settings: Any
) -> None:
    pair.pause()
    token(robin, "made elsewhere")
    settings.FAIRSHARE_REPLICA_LAG_S = -1
    assert shows(browser_of_robin, "made elsewhere"), "of the primary"
    settings.FAIRSHARE_REPLICA_LAG_S = 60
    assert shows(browser_of_robin, "made elsewhere")


@pytest.mark.parametrize("value", ["", "zz", "f" * 17, "-1", "7fffffffffffffff"])
def test_another_position_than_ours_leads_to_the_primary(
    browser_of_robin: Client, pair: ReplicatedDatabase, value: str
) -> None:
    browser_of_robin.cookies[replica_reads.COOKIE] = value
    before = reads("served")
    assert shows(browser_of_robin, "robin")
    assert reads("served") == before


def test_one_that_is_too_far_behind_is_not_used_and_is_named(
    pair: ReplicatedDatabase, robin: User, browser_of_robin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.pause()
    token(robin, "made elsewhere")
    replica.measure()
    assert not shows(browser_of_robin, "made elsewhere")
    real = time.monotonic
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: real() + 3_600)
        replica.measure()
        assert shows(browser_of_robin, "made elsewhere")
        assert readiness()["replica_unused"].startswith("is 3,60")
        assert readiness()["replica_unused"].endswith(" s behind, more than FAIRSHARE_REPLICA_LAG_S=60")
        assert metrics()["fairshare_replica_used"] == [0.0]
        assert metrics()["fairshare_replica_lag_seconds"][0] >= 3_600
    pair.catch_up()
    replica.measure()
    assert "replica_unused" not in readiness()
    assert metrics()["fairshare_replica_used"] == [1.0]
    assert metrics()["fairshare_replica_lag_seconds"][0] < 60


def metrics() -> dict[str, list[float]]:
    text = Client().get("/metrics").content.decode()
    return {family.name: [sample.value for sample in family.samples] for family in text_string_to_metric_families(text)}


def test_an_idle_primary_does_not_make_it_old(pair: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 3_600)
    replica.measure()
    assert (replica.state.lag_s(real() + 3_600) or 0) < 60


def test_one_that_dies_between_two_measurements_costs_no_request(
    pair: ReplicatedDatabase, browser_of_robin: Client
) -> None:
    assert shows(browser_of_robin, "robin")
    for signalled in (signal.SIGQUIT, None):
        if signalled is not None and pair.replica.process is not None:
            pair.replica.process.send_signal(signalled)
            pair.replica.process.wait(20)
        before = reads("repeated"), time.monotonic()
        assert shows(browser_of_robin, "robin")
        assert time.monotonic() - before[1] < 5
        assert reads("repeated") == before[0] + (signalled is not None), "the next requests don't try"
    replica.measure()
    assert readiness()["replica_unused"].startswith("does not answer: ")
    pair.replica.start()
    wait_until(is_used, "not used again")
    before_served = reads("served")
    browser_of_robin.cookies.pop(replica_reads.COOKIE)
    assert shows(browser_of_robin, "robin")
    assert reads("served") == before_served + 1


def test_a_view_that_writes_is_done_by_the_primary(
    pair: ReplicatedDatabase, robin: User, browser_of_robin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.accounts import selectors

    listed = selectors.list_tokens

    def lists_and_writes(*args: Any, **kwargs: Any) -> Any:
        User.objects.filter(pk=robin.pk).update(email="robin@example.org")
        return listed(*args, **kwargs)

    monkeypatch.setattr(selectors, "list_tokens", lists_and_writes)
    before = reads("repeated")
    assert shows(browser_of_robin, "robin")
    robin.refresh_from_db()
    assert (robin.email, reads("repeated")) == ("robin@example.org", before + 1)


def test_what_it_does_not_have_yet_is_asked_of_the_primary(pair: ReplicatedDatabase, browser_of_robin: Client) -> None:
    before = reads("repeated")
    assert browser_of_robin.get("/policy/absent/").status_code == 404
    assert reads("repeated") == before + 1


def test_an_export_comes_from_it_piece_by_piece(
    pair: ReplicatedDatabase, robin: User, browser_of_robin: Client
) -> None:
    for number in range(3):
        token(robin, f"before {number}")
    pair.catch_up()
    pair.pause()
    token(robin, "not exported")
    replica.measure()
    answer: Any = browser_of_robin.get("/audit/export.csv")
    pieces = iter(answer.streaming_content)
    first = next(pieces)
    with connection.cursor() as cursor:  # this thread's own statements go to the primary between two pieces
        cursor.execute("SELECT pg_is_in_recovery()")
        assert cursor.fetchone() == (False,)
    body = (first + b"".join(pieces)).decode()
    answer.close()
    assert "before 2" in body
    assert "not exported" not in body


def test_a_token_that_may_write_reads_from_the_primary_and_revoked_ones_end_there(
    pair: ReplicatedDatabase, robin: User
) -> None:
    reader, read_text = token(robin, "reads", "policies:read")
    _writer, write_text = token(robin, "writes", "policies:write", "policies:read")

    def get(text: str) -> int:
        return Client(headers={"Authorization": f"Bearer {text}"}).get("/api/v1/policies").status_code

    assert [get(text) for text in (read_text, write_text)] == [200, 200], "the replica may not know them yet"
    pair.catch_up()
    replica.measure()
    before = reads("served")
    assert get(write_text) == 200
    assert reads("served") == before
    assert get(read_text) == 200
    assert reads("served") == before + 1
    pair.pause()
    revoke_token(token_id=reader.pk, at=AT, actor=COMMAND)
    tokens.clear()  # as after its four seconds
    assert get(read_text) == 401


def test_statements_that_name_no_database_and_transactions_are_in_the_replica(pair: ReplicatedDatabase) -> None:
    from django.db import transaction

    from apps.core.postgresql import fetch_prepared

    with reading_replica():
        assert fetch_prepared("recovery", "SELECT pg_is_in_recovery(), $1::int", [1]) == (True, 1)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery(), current_setting('lock_timeout')")
            assert cursor.fetchone() == (True, "30s")
    assert fetch_prepared("recovery", "SELECT pg_is_in_recovery(), $1::int", [1]) == (False, 1)


def test_an_ordinary_user_may_measure(pair: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with pair.primary.connect(pair.name) as owner:
        owner.execute("CREATE ROLE plain LOGIN")
    pair.catch_up()
    connections.close_all()
    with monkeypatch.context() as patch:
        for alias in ("default", ALIAS):
            patch.setitem(connections.settings[alias], "USER", "plain")
        replica.measure()
        assert replica.state.problem == ""
        connections.close_all()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [("primary", "is no replica: it accepts writes"), ("database", "is a replica of another database")],
)
def test_what_is_no_replica_of_this_database_is_not_used_and_named(
    pair: ReplicatedDatabase, browser_of_robin: Client, monkeypatch: pytest.MonkeyPatch, wrong: str, problem: str
) -> None:
    connections[ALIAS].close()
    if wrong == "primary":
        monkeypatch.setitem(connections.settings[ALIAS], "HOST", str(pair.primary.sockets))
    else:
        monkeypatch.setitem(connections.settings[ALIAS], "NAME", "postgres")
    replica.measure()
    before = reads("served")
    assert shows(browser_of_robin, "robin")
    assert (readiness()["replica_unused"], reads("served")) == (problem, before)


def test_a_promoted_one_is_not_used(two_projects: Site, pair: ReplicatedDatabase) -> None:
    second = pair.make_replica("second")
    second.start()
    patch = pytest.MonkeyPatch()
    try:
        connections[ALIAS].close()
        patch.setitem(connections.settings[ALIAS], "HOST", str(second.sockets))
        wait_until(is_used, "not used")
        with second.connect(pair.name) as promoted:
            promoted.execute("SELECT pg_promote()")
        replica.measure()
        assert replica.state.refusal(time.monotonic()) == "is no replica: it accepts writes"
        # seen from the other side: what followed the old primary is not on the timeline of the new one
        for alias, host in (("default", second.sockets), (ALIAS, pair.replica.sockets)):
            connections[alias].close()
            patch.setitem(connections.settings[alias], "HOST", str(host))
        pair.on_primary("SELECT pg_switch_wal()")
        replica.measure()
        assert replica.state.refusal(time.monotonic()) == "is on timeline 1, and the primary on 2: it was promoted"
    finally:
        patch.undo()
        connections.close_all()
        second.stop()


def test_wrong_settings_are_refused(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[str]:
        return [str(message.id) for message in run_checks() if str(message.id) in ("fairshare.E003", "fairshare.E004")]

    assert found() == []
    monkeypatch.setitem(settings.DATABASES, ALIAS, {**settings.DATABASES["default"], "HOST": "db2.example.org"})
    settings.FAIRSHARE_EMBEDDED_DATABASE = True
    assert found() == ["fairshare.E003"]
    settings.FAIRSHARE_EMBEDDED_DATABASE = False
    assert found() == []
    monkeypatch.setitem(settings.DATABASES, ALIAS, dict(settings.DATABASES["default"]))
    assert found() == ["fairshare.E004"]


@pytest.mark.deep
def test_no_page_of_a_policy_needs_the_primary(
    pair: ReplicatedDatabase, browser_of_robin: Client, settings: Any
) -> None:
    from fairshare_web.urls import PAGES

    settings.FAIRSHARE_REPLICA_LAG_S = 3_600  # asking all pages takes longer than a minute where much else runs
    routes = [str(each.pattern) for each in PAGES]
    paths = [f"/{route.replace('<slug:policy>', 'grid')}" for route in routes]
    by_primary, n_served = [], 0
    for path in sorted({path for path in paths if "<" not in path and not path.startswith(("/sign-", "/me/"))}):
        browser_of_robin.cookies.pop(replica_reads.COOKIE, None)
        answer: Any = browser_of_robin.get(path)
        body = b"".join(answer.streaming_content) if answer.streaming else b""
        if answer.status_code == 200:
            n_served += getattr(answer, "is_of_replica", False)
            if not getattr(answer, "is_of_replica", False):
                by_primary.append((path, answer.status_code, len(body)))
    assert (by_primary, n_served > 40) == ([], True)
