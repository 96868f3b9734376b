from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import override_settings

from apps.accounts import token_files
from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import AuditEvent, Token, User
from apps.accounts.selectors import list_tokens
from apps.accounts.services import (
    NewToken,
    VerifiedToken,
    allowed_scopes,
    look_up_token,
    make_token,
    make_user,
    revoke_token,
    rotate_token,
    verify_token,
)
from apps.accounts.sign_in.sealing import unseal as unseal_text
from apps.accounts.token_cache import _MARGIN_S, FRESH_S, OUTAGE_S, REFRESH_S, RETRY_S, DatabaseProbe, TokenCache
from apps.core.column_bounds import most_characters
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Unauthenticated, Unavailable

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def _made(user: User, at: datetime, scope: str = "priorities:read", days: int = 90) -> tuple[Token, str]:
    return make_token(NewToken(name="scheduler", scopes=[scope], user=user, days=days), at=at, actor=COMMAND)


def test_a_token_has_owner_and_scopes(alice: User, at: datetime) -> None:
    uid = uuid4()
    _token, text = make_token(
        NewToken(
            name="slurm",
            scopes=["priorities:read", "usage:write"],
            user=alice,
            policy_slug="grid",
            subtree_uid=uid,
            source_slug="c1",
        ),
        at=at,
        actor=COMMAND,
    )
    user, bounds = verify_token(text, at=at)
    assert user == alice
    assert bounds.scopes == {"priorities:read", "usage:write"}
    assert (bounds.policy_slug, bounds.subtree_uid, bounds.source_slug) == ("grid", uid, "c1")
    assert text.startswith(bounds.prefix + "_")


def test_the_database_contains_no_usable_token(alice: User, at: datetime) -> None:
    _token, text = _made(alice, at)
    secret = text.rsplit("_", 1)[1]
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(t)::text FROM accounts_token t")
        stored = "".join(row[0] for row in cursor.fetchall())
        cursor.execute("SELECT row_to_json(a)::text FROM accounts_auditevent a")
        stored += "".join(row[0] for row in cursor.fetchall())
    assert secret not in stored
    assert bytes.fromhex(secret).hex() not in stored


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
        lambda text: text.replace("fsh_", "xyz_"),
        lambda text: text[:-10],
        lambda text: "fsh_" + "0" * 12 + text[16:],
        lambda text: text + "\n",
        lambda text: "",
        lambda text: "fsh_é_\ud800",
    ],
)
def test_all_invalid_tokens_are_refused_alike(alice: User, at: datetime, spoil: object) -> None:
    _token, text = _made(alice, at)
    assert callable(spoil)
    with pytest.raises(Unauthenticated) as refused:
        verify_token(spoil(text), at=at)
    assert refused.value.code == "invalid_token"


def test_a_token_expires(alice: User, at: datetime) -> None:
    _token, text = _made(alice, at, days=1)
    verify_token(text, at=at + DAY - timedelta(seconds=1))
    with pytest.raises(Unauthenticated):
        verify_token(text, at=at + DAY)


def test_revoked_tokens_and_those_of_deactivated_users_are_refused(alice: User, at: datetime) -> None:
    token, text = _made(alice, at)
    _other, other_text = _made(alice, at)
    revoke_token(token_id=token.pk, at=at, actor=Actor(user=alice, via="page"))
    with pytest.raises(Unauthenticated):
        verify_token(text, at=at)
    verify_token(other_text, at=at)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(Unauthenticated):
        verify_token(other_text, at=at)


def test_after_rotation_the_old_secret_is_valid_for_a_day(alice: User, at: datetime) -> None:
    token, old = _made(alice, at)
    rotated, new = rotate_token(token_id=token.pk, at=at, actor=Actor(user=alice, via="page"))
    assert rotated.last_four == new[-4:]
    verify_token(new, at=at)
    verify_token(old, at=at + DAY - timedelta(seconds=1))
    with pytest.raises(Unauthenticated):
        verify_token(old, at=at + DAY)
    verify_token(new, at=at + DAY)


def test_revoking_invalidates_the_old_secret(alice: User, at: datetime) -> None:
    token, old = _made(alice, at)
    rotate_token(token_id=token.pk, at=at, actor=COMMAND)
    revoke_token(token_id=token.pk, at=at, actor=COMMAND)
    with pytest.raises(Unauthenticated):
        verify_token(old, at=at)
    with pytest.raises(Conflict):
        rotate_token(token_id=token.pk, at=at, actor=COMMAND)


def test_a_new_pepper_leaves_older_tokens_valid(alice: User, at: datetime) -> None:
    with override_settings(FAIRSHARE_TOKEN_PEPPERS=["first"]):
        token, old = _made(alice, at)
    with override_settings(FAIRSHARE_TOKEN_PEPPERS=["first", "second"]):
        verify_token(old, at=at)
        rotated, new = rotate_token(token_id=token.pk, at=at, actor=COMMAND)
        assert rotated.pepper_version == 1
        verify_token(old, at=at)
        verify_token(new, at=at)
    with override_settings(FAIRSHARE_TOKEN_PEPPERS=["other"]), pytest.raises(Unauthenticated):
        verify_token(new, at=at)


def test_last_use_is_stored_once_a_minute(alice: User, at: datetime) -> None:
    token, text = _made(alice, at)
    for seconds in (0, 30, 59, 61):
        verify_token(text, at=at + timedelta(seconds=seconds))
    token.refresh_from_db()
    assert token.last_used_at == at + timedelta(seconds=61)


@pytest.mark.parametrize("days", [0, -1, 366])
def test_a_token_is_valid_for_a_year_at_most(alice: User, at: datetime, days: int) -> None:
    with pytest.raises(Invalid):
        _made(alice, at, days=days)


def test_a_token_has_a_name_and_what_it_is_bound_to_belongs_to_a_policy(alice: User, at: datetime) -> None:
    def make(name: str = "slurm", **bounds: Any) -> Token:
        new = NewToken(name=name, scopes=["priorities:read"], user=alice, **bounds)
        return make_token(new, at=at, actor=COMMAND)[0]

    longest = most_characters(Token, "name")
    for name in ("", "  ", "x" * (longest + 1)):
        with pytest.raises(Invalid, match=f"1 to {longest} characters"):
            make(name)
    assert [make(name).name for name in (" slurm ", "x" * longest)] == ["slurm", "x" * longest]
    bounds: list[dict[str, Any]] = [{"subtree_uid": uuid4()}, {"scheduler_name": "slurm"}]
    for each in bounds:
        with pytest.raises(Invalid, match="belongs to a policy"):
            make(**each)
        assert make(policy_slug="grid", **each).policy_slug == "grid"


@pytest.mark.parametrize("scopes", [[], ["everything"], ["self:read", "x"]])
def test_scopes_come_from_the_list(alice: User, at: datetime, scopes: list[str]) -> None:
    with pytest.raises(Invalid):
        make_token(NewToken(name="t", scopes=scopes, user=alice), at=at, actor=COMMAND)


@pytest.mark.parametrize("scope", ["admin", "usage:write", "priorities:read", "federation"])
def test_users_cannot_grant_themselves_administrator_scopes(
    alice: User, as_alice: Actor, at: datetime, scope: str
) -> None:
    with pytest.raises(NotAllowed):
        make_token(NewToken(name="t", scopes=["self:read", scope], user=alice), at=at, actor=as_alice)
    assert not Token.objects.exists()


def test_users_give_their_tokens_what_reads_and_proposes(alice: User, as_alice: Actor, eva: User, at: datetime) -> None:
    own = ["self:read", "policies:read", "policies:write"]
    assert sorted(allowed_scopes(as_alice)) == sorted(own)
    token, text = make_token(NewToken(name="t", scopes=own, user=alice), at=at, actor=as_alice)
    assert verify_token(text, at=at)[1].scopes == set(own)
    assert token.user == alice
    assert sorted(allowed_scopes(COMMAND)) == sorted(Token.Scope.values)
    bound = Actor(user=eva, via="api", token=TokenBounds("fsh_x", frozenset({"admin"}), policy_slug="grid"))
    assert sorted(allowed_scopes(bound)) == sorted(own), "not what its owner may give outside of its bounds"


def test_users_manage_only_their_own_tokens(alice: User, eva: User, as_alice: Actor, at: datetime) -> None:
    with pytest.raises(NotAllowed):
        make_token(NewToken(name="t", scopes=["self:read"], user=eva), at=at, actor=as_alice)
    token, _text = _made(eva, at)
    for act in (rotate_token, revoke_token):
        with pytest.raises(NotFound):
            act(token_id=token.pk, at=at, actor=as_alice)
    assert list_tokens(actor=as_alice) == []


def test_only_unlimited_administrator_tokens_create_tokens(eva: User, at: datetime) -> None:
    for bounds, allowed in (
        (TokenBounds("fsh_x", frozenset({"policies:write"})), False),
        (TokenBounds("fsh_x", frozenset({"admin"}), policy_slug="grid"), False),
        (TokenBounds("fsh_x", frozenset({"admin"})), True),
    ):
        actor = Actor(user=eva, via="api", token=bounds)
        if allowed:
            make_token(NewToken(name="t", scopes=["self:read"], user=eva), at=at, actor=actor)
        else:
            with pytest.raises(NotAllowed):
                make_token(NewToken(name="t", scopes=["self:read"], user=eva), at=at, actor=actor)


def test_every_token_action_is_audited(alice: User, at: datetime) -> None:
    token, _text = _made(alice, at)
    rotate_token(token_id=token.pk, at=at, actor=COMMAND)
    revoke_token(token_id=token.pk, at=at, actor=COMMAND)
    revoke_token(token_id=token.pk, at=at, actor=COMMAND)
    verbs = list(AuditEvent.objects.order_by("id").values_list("verb", flat=True))
    assert verbs == ["token.made", "token.rotated", "token.revoked"]


class _Clock:
    """The monotonic clock that the cache reads, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def _outage() -> Any:
    failing = OperationalError("the database is away")
    return patch("apps.accounts.token_cache.look_up_token", side_effect=failing)


def test_revocation_takes_effect_within_five_seconds(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    token, text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at)
        revoke_token(token_id=token.pk, at=at, actor=COMMAND)
        clock.now_s += FRESH_S
        assert FRESH_S < 5
        with pytest.raises(Unauthenticated):
            cache.verify(text, at=at)


def test_a_verified_token_needs_no_database_for_a_few_seconds(
    alice: User, at: datetime, django_assert_num_queries: object
) -> None:
    cache = TokenCache()
    _token, text = _made(alice, at)
    cache.verify(text, at=at)
    assert callable(django_assert_num_queries)
    with django_assert_num_queries(0):
        assert cache.verify(text, at=at)[0] == alice


def test_one_request_a_second_refreshes_a_token_and_others_use_the_cache(alice: User, at: datetime) -> None:
    """So that look-ups from memory never pause for a token that is in use."""
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        assert not cache.is_fresh(text)
        cache.verify(text, at=at)
        clock.now_s += REFRESH_S - 0.1
        assert [cache.is_fresh(text) for _ in range(3)] == [True] * 3
        clock.now_s += 0.2
        assert [cache.is_fresh(text) for _ in range(3)] == [False, True, True]
        with patch("apps.accounts.token_cache.look_up_token", side_effect=look_up_token) as asked:
            cache.verify(text, at=at)
            assert asked.call_count == 0
            cache.verify(text, at=at, refresh=True)
            assert asked.call_count == 1
        clock.now_s += REFRESH_S - 0.1
        assert cache.is_fresh(text)
        clock.now_s = 1000.0 + 3 * FRESH_S
        assert [cache.is_fresh(text) for _ in range(2)] == [False, False], "too old for anybody"


def test_during_an_outage_a_verified_token_reads_priorities_for_a_day(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = make_token(
        NewToken(name="both", scopes=["priorities:read", "usage:write"], user=alice), at=at, actor=COMMAND
    )
    _reader, reader_text = _made(alice, at, scope="policies:read")
    _stranger, stranger_text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at)
        cache.verify(reader_text, at=at)
        clock.now_s += FRESH_S
        with patch("apps.accounts.token_cache.connection"), _outage() as asked:
            assert cache.verify(text, at=at)[1].scopes == {"priorities:read"}
            assert cache.verify(text, at=at)[1].scopes == {"priorities:read"}
            assert asked.call_count == 1, "the second one doesn't wait for the database again"
            with pytest.raises(NotAllowed):
                cache.verify(reader_text, at=at)
            with pytest.raises(Unavailable):
                cache.verify(stranger_text, at=at)
            with pytest.raises(Unauthenticated):
                cache.verify(text, at=at + timedelta(days=91))
            clock.now_s += OUTAGE_S
            with pytest.raises(Unavailable):
                cache.verify(text, at=at + timedelta(seconds=OUTAGE_S))
        clock.now_s += RETRY_S
        assert cache.verify(stranger_text, at=at)[1].scopes == {"priorities:read"}


def test_a_token_that_expires_in_the_cache_is_forgotten(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at, days=1)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at + DAY - timedelta(seconds=1))
        with pytest.raises(Unauthenticated):
            cache.verify(text, at=at + DAY)
        assert not cache.is_fresh(text)
        with _outage(), patch("apps.accounts.token_cache.connection"), pytest.raises(Unavailable):
            cache.verify(text, at=at + 2 * DAY)


def test_a_cleared_cache_knows_no_token(alice: User, at: datetime) -> None:
    cache = TokenCache()
    _token, text = _made(alice, at)
    cache.verify(text, at=at)
    assert cache.is_fresh(text)
    cache.clear()
    assert not cache.is_fresh(text)


def test_a_token_that_was_revoked_before_an_outage_is_not_served_in_it(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    token, text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at)
        revoke_token(token_id=token.pk, at=at, actor=COMMAND)
        clock.now_s += FRESH_S
        with pytest.raises(Unauthenticated):
            cache.verify(text, at=at)
        clock.now_s += RETRY_S
        with _outage(), patch("apps.accounts.token_cache.connection"), pytest.raises(Unavailable):
            cache.verify(text, at=at)


def test_a_token_that_was_verified_over_a_day_ago_is_not_served_in_an_outage(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at)
        with _outage(), patch("apps.accounts.token_cache.connection"):
            clock.now_s += OUTAGE_S
            assert cache.verify(text, at=at)[1].scopes == {"priorities:read"}
            clock.now_s += 1
            with pytest.raises(Unavailable):
                cache.verify(text, at=at)


def test_an_administrators_token_reads_priorities_in_an_outage_and_no_more(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = make_token(NewToken(name="all", scopes=["admin"], user=alice), at=at, actor=COMMAND)
    with patch("apps.accounts.token_cache.time", clock):
        assert cache.verify(text, at=at)[1].scopes == {"admin"}
        clock.now_s += FRESH_S
        with _outage(), patch("apps.accounts.token_cache.connection") as used:
            assert cache.verify(text, at=at)[1].scopes == {"priorities:read"}
        assert used.close.call_count == 1, "the connection that failed is not used again"


def test_a_token_counts_as_fresh_only_as_long_as_the_request_that_asks_may_take(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        cache.verify(text, at=at)
        clock.now_s += FRESH_S - 2 * _MARGIN_S
        assert [cache.is_fresh(text) for _ in range(2)] == [False, True], "the first one refreshes it"
        clock.now_s += 1.5 * _MARGIN_S
        assert [cache.is_fresh(text) for _ in range(2)] == [False, False]


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_files, "directory", lambda: tmp_path / "tokens")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("known_by", ["memory", "file"])
def test_a_token_that_has_changed_is_forgotten_in_memory_without_a_file_and_as_a_file_of_another_process(
    alice: User, at: datetime, known_by: str
) -> None:
    clock, cache = _Clock(), TokenCache()
    token, text = _made(alice, at)
    _other, unchanged = _made(alice, at)
    with patch("apps.accounts.token_cache.time", clock):
        for each in (text, unchanged):
            cache.verify(each, at=at)
        if known_by == "memory":
            token_files.forget(f"fsh_{token.public_id}")
        else:
            cache = TokenCache()
        Token.objects.filter(pk=token.pk).update(revoked_at=at)
        cache.forget_changed(at=at)
        with _outage(), patch("apps.accounts.token_cache.connection"):
            clock.now_s += FRESH_S
            assert cache.verify(unchanged, at=at)[1].scopes == {"priorities:read"}
            with pytest.raises(Unavailable):
                cache.verify(text, at=at)


@pytest.mark.usefixtures("_files")
def test_a_process_that_starts_in_an_outage_reads_the_file_of_a_token_once(alice: User, at: datetime) -> None:
    _token, text = _made(alice, at)
    TokenCache().verify(text, at=at)
    cache = TokenCache()
    with _outage(), patch("apps.accounts.token_cache.connection"):
        with patch("apps.accounts.token_cache.token_files.read", side_effect=token_files.read) as reads:
            assert [cache.verify(text, at=at)[0] for _ in range(3)] == [alice] * 3
        assert reads.call_count == 1


@pytest.mark.usefixtures("_files")
def test_a_token_that_is_known_by_its_file_is_as_old_as_the_file(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at)
    TokenCache().verify(text, at=at)
    nearly_s = OUTAGE_S - 60
    with patch("apps.accounts.token_cache.time", clock), _outage(), patch("apps.accounts.token_cache.connection"):
        assert cache.verify(text, at=at + timedelta(seconds=nearly_s))[1].scopes == {"priorities:read"}
        clock.now_s += 60
        assert cache.verify(text, at=at + timedelta(seconds=nearly_s + 60))[1].scopes == {"priorities:read"}
        clock.now_s += 1
        with pytest.raises(Unavailable):
            cache.verify(text, at=at + timedelta(seconds=nearly_s + 61))


@pytest.mark.usefixtures("_files")
def test_where_no_token_is_known_no_query_asks_for_changes(at: datetime, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        TokenCache().forget_changed(at=at)


@pytest.mark.usefixtures("_files")
def test_the_file_of_a_token_in_use_is_written_again_every_ten_minutes(alice: User, at: datetime) -> None:
    clock, cache = _Clock(), TokenCache()
    token, text = _made(alice, at)
    with (
        patch("apps.accounts.token_cache.time", clock),
        patch("apps.accounts.token_cache.token_files.write", side_effect=token_files.write) as writes,
    ):
        counts = []
        for later_s in (0.0, FRESH_S, 596.0, 600.0, 604.0, 1196.0, 1200.0):
            clock.now_s = 1000.0 + later_s
            cache.verify(text, at=at + timedelta(seconds=later_s))
            counts.append(writes.call_count)
        assert counts == [1, 1, 1, 2, 2, 2, 3]
        Token.objects.filter(pk=token.pk).update(scopes=["priorities:read", "usage:write"])
        clock.now_s += FRESH_S
        cache.verify(text, at=at)
        assert writes.call_count == 4, "at once, if the token has changed"


@pytest.mark.usefixtures("_files")
def test_a_token_that_was_known_by_its_file_alone_is_written_when_the_database_answers_again(
    alice: User, at: datetime
) -> None:
    clock, cache = _Clock(), TokenCache()
    clock.now_s = 30.0  # the machine has just started
    _token, text = _made(alice, at)
    TokenCache().verify(text, at=at)
    with patch("apps.accounts.token_cache.time", clock):
        with _outage(), patch("apps.accounts.token_cache.connection"):
            cache.verify(text, at=at)
        clock.now_s += RETRY_S
        with patch("apps.accounts.token_cache.token_files.write", side_effect=token_files.write) as writes:
            cache.verify(text, at=at)
        assert writes.call_count == 1


@pytest.mark.usefixtures("_files")
def test_nothing_of_a_token_that_is_gone_stays_on_the_host(alice: User, at: datetime) -> None:
    token, text = _made(alice, at)
    cache = TokenCache()
    _user, bounds = cache.verify(text, at=at)
    for kind in (token_files.READABLE, token_files.ORDERS):
        token_files.write(token_files.TokenFile(bounds.prefix, kind, "grid", "state", at, {}))
    assert len(list(token_files.directory().iterdir())) == 3
    token.delete()
    cache.forget_changed(at=at)
    assert not list(token_files.directory().iterdir())


def test_a_query_that_fails_closes_the_connection_of_its_thread() -> None:
    def fail() -> None:
        raise OperationalError("the database is away")

    probe = DatabaseProbe()
    with patch("apps.accounts.token_cache.connection") as used, pytest.raises(OperationalError, match="is away"):
        probe.run(fail, timeout_s=30)
    assert used.close.call_count == 1
    assert probe.run(lambda: 7, timeout_s=30) == 7


def test_a_process_that_was_forked_asks_in_a_thread_of_its_own() -> None:
    probe = DatabaseProbe()
    assert probe.run(lambda: 7, timeout_s=30) == 7
    child = os.fork()
    if child == 0:
        try:
            os._exit(probe.run(lambda: 8, timeout_s=30))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8


def test_a_database_that_accepts_and_never_answers_is_an_outage(
    alice: User, at: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, cache = _Clock(), TokenCache()
    _token, text = _made(alice, at)
    verified = look_up_token(text, at=at)
    asked: list[str] = []
    storm, hangs, continued = threading.Event(), threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> VerifiedToken:
        asked.append(threading.current_thread().name)
        if len(asked) == 2:
            hangs.set()
            assert continued.wait(30)
        return verified

    class _Impatient(Future[VerifiedToken]):
        """Patience ends when the question hangs, not by the clock."""

        def result(self, timeout: float | None = None) -> VerifiedToken:
            if not storm.is_set() or continued.is_set():
                return super().result(30)
            assert hangs.wait(30)
            raise TimeoutError

    monkeypatch.setattr(settings, "FAIRSHARE_TOKEN_PATIENCE_S", 1.0)
    monkeypatch.setattr("apps.accounts.token_cache.Future", _Impatient)
    monkeypatch.setattr("apps.accounts.token_cache.look_up_token", look_up)
    with patch("apps.accounts.token_cache.time", clock):
        assert cache.verify(text, at=at)[0] == alice
        storm.set()
        for _ in range(3):
            clock.now_s += FRESH_S
            assert cache.verify(text, at=at)[1].scopes == {"priorities:read"}
        assert asked == ["database-probe", "database-probe"], "the others find a question unanswered and don't wait"
        with pytest.raises(Unavailable):
            cache.verify("fsh_aaaaaaaaaaaa_" + 64 * "0", at=at)
        continued.set()
        unanswered = cache._probe._unanswered
        assert unanswered is not None
        assert unanswered.result() == verified
        clock.now_s += FRESH_S
        assert cache.verify(text, at=at)[1].prefix == verified.bounds.prefix
        assert len(asked) == 3


def test_a_user_is_created_with_a_generated_or_given_password(at: datetime) -> None:
    user, made = make_user(username="carol", email="", password=None, is_admin=False, actor=COMMAND)
    assert made is not None
    assert user.check_password(made)
    admin, nothing = make_user(
        username="dan", email="dan@example.org", password="a long pass phrase", is_admin=True, at=at, actor=COMMAND
    )
    assert nothing is None
    assert (admin.is_superuser, admin.date_joined) == (True, at)
    assert AuditEvent.objects.filter(verb="user.made").count() == 2


@pytest.mark.parametrize(
    ("username", "password", "refusal"),
    [("eva", "a long pass phrase", Conflict), ("a b", "a long pass phrase", Invalid), ("frank", "123", Invalid)],
)
def test_an_invalid_user_is_refused(eva: User, username: str, password: str, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        make_user(username=username, email="", password=password, is_admin=False, actor=COMMAND)


def test_only_administrators_create_users(as_alice: Actor) -> None:
    with pytest.raises(NotAllowed):
        make_user(username="x", email="", password=None, is_admin=False, actor=as_alice)


def test_a_person_has_so_many_valid_tokens(alice: User, at: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.accounts.services.MOST_TOKENS", 2)
    first, _text = _made(alice, at, days=1)
    second, _text = _made(alice, at)
    with pytest.raises(Conflict, match="2 valid tokens, the most allowed: revoke one first") as refused:
        _made(alice, at)
    assert refused.value.code == "too_many_tokens"
    _made(alice, at + DAY)  # the first has expired
    revoke_token(token_id=second.pk, at=at + DAY, actor=COMMAND)
    _made(alice, at + DAY)
    assert first.expires_at == at + DAY


def test_a_file_of_a_token_is_opened_once(at: datetime, tmp_path: Path, settings: Any) -> None:
    settings.VAR = tmp_path
    files = [token_files.TokenFile(f"p{n}", token_files.VERIFIED, "", "s", at, {"n": n}) for n in range(3)]
    for file in files:
        token_files.write(file)
    with patch("apps.accounts.token_files.unseal", wraps=unseal_text) as unseal:
        for _again in range(3):
            assert {file.prefix for _path, file in token_files.list_files(at=at)} == {"p0", "p1", "p2"}
        assert unseal.call_count == 3
        token_files.write(files[0])
        token_files.remove("p1", token_files.VERIFIED, "")
        assert {file.prefix for _path, file in token_files.list_files(at=at)} == {"p0", "p2"}
        assert unseal.call_count == 4, "another file in the place of the first"
    assert list(token_files.list_files(at=at + 2 * DAY)) == []
    assert list((tmp_path / "tokens").iterdir()) == [], "those that count no longer are deleted"
