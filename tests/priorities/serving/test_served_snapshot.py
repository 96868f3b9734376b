from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
import orjson
import pytest
from django.conf import settings
from django.db import DataError, OperationalError, connection

from apps.core import blobs, mapped_columns
from apps.core.errors import NotFound, Unavailable
from apps.policies.tree import files
from apps.policies.tree.stored import tree_cache
from apps.priorities import snapshots
from apps.priorities.models import Snapshot, StoredPlaces, UnmappedAccounts
from apps.priorities.selectors import freshness
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.serving.lookup import Readable
from apps.priorities.serving.served_snapshot import AccountQuery, Query
from apps.priorities.snapshot_retention import ALL_FOR, prune_snapshots
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _copies_of_this_test_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "VAR", tmp_path)


@contextmanager
def _database_away() -> Iterator[None]:
    """Every query fails as it does when the server is gone."""
    away = OperationalError("connection to server failed")
    with patch.object(connection, "cursor", side_effect=away), patch.object(connection, "close"):
        yield


def test_the_answer_is_the_contract_s_object(site: Site) -> None:
    site.recompute()
    got = store.newest("grid")
    head = got.head(AS_OF + timedelta(seconds=14.2))
    assert head == {
        "policy": "grid",
        "snapshot": got.snapshot_id,
        "revision": 2,
        "as_of": "2026-11-20T12:00:00Z",
        "computed_at": "2026-11-20T12:00:02Z",
        "age_s": 14.2,
        "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10000},
    }
    alice, nobody = got.lookup(["alice", "nobody"])
    assert [alice, {name: nobody[name] for name in ("account", "entry", "error", "factor")}] == [
        {
            "account": "alice",
            "entry": "/physics/alice",
            "factor": 0.75,
            "rank": 2,
            "of": 4,
            "priorities": [pytest.approx(0.0833333, abs=1e-6), -0.3125],
            "vector": [5416, 3437],
            "key": "54163437",
        },
        {"account": "nobody", "entry": None, "error": "unmapped", "factor": 0.5},
    ]
    assert orjson.loads(b"{" + got.head_json(AS_OF) + b"}") == got.head(AS_OF)


def test_prepared_json_equals_the_objects(site: Site) -> None:
    site.job("alice", "biology", 1)
    site.recompute()
    got = store.newest("grid")
    queries: list[Query] = [
        "alice",
        "nobody",
        AccountQuery("bob", "physics", "c1"),
        AccountQuery("zoe", "physics"),
        "carol",
        "alice",
    ]
    expected = got.lookup(queries)
    assert orjson.loads(got.lookup_json(queries)) == expected
    assert orjson.loads(got.lookup_json(queries)) == expected, "and again, from the pieces"
    assert got.lookup_json([]) == b"[]"
    accounts, factors, ranks = got.lookup_columns(queries)
    assert accounts == [one["account"] for one in expected]
    assert factors == [one["factor"] for one in expected]
    assert ranks == [one.get("rank") for one in expected]


def test_several_entries_are_listed_best_first_and_a_group_account_has_the_vector_of_its_group(site: Site) -> None:
    site.job("alice", "biology", 1)
    site.recompute()
    got = store.newest("grid")
    entries = got.lookup(["alice"])
    assert [one["entry"] for one in entries] == ["/physics/alice", "/biology"]
    assert entries[0]["rank"] < entries[1]["rank"]
    assert entries[1]["vector"] == got.lookup(["carol"])[0]["vector"][:1]
    assert entries[1]["key"].endswith("5000")
    assert entries[1]["factor"] >= 0.25


def test_entries_outside_the_mask_are_answered_as_unmapped(site: Site) -> None:
    site.recompute()
    got = store.newest("grid")
    physics = got.tree.index_of_path("/physics")
    assert physics is not None
    mask = got.subtree_mask(got.tree.uuid(physics))
    found = {one["account"]: one for one in orjson.loads(got.lookup_json(["alice", "carol"], mask))}
    assert found["alice"]["entry"] == "/physics/alice"
    assert (found["carol"]["entry"], found["carol"]["error"], found["carol"]["factor"]) == (None, "unmapped", 0.5)
    assert {one["entry"] for one in every_leaf(got, Readable(mask, None))} == {"/physics/alice", "/physics/bob"}


def test_every_leaf_is_listed_once_per_account(site: Site) -> None:
    site.job("zoe", "physics", 1)
    site.recompute()
    got = [(one["account"], one["entry"]) for one in every_leaf(store.newest("grid"))]
    assert sorted(got, key=str) == sorted(
        [
            ("alice", "/physics/alice"),
            ("bob", "/physics/bob"),
            ("carol", "/biology/carol"),
            (None, "/biology/dan"),
            ("zoe", "/physics"),
        ],
        key=str,
    )


def test_a_new_user_gets_the_factor_of_a_new_member(site: Site) -> None:
    each = site.rule("/physics", kind="each", group_pattern="physics", suffix="", member_shares=2)
    site.map(each, site.rule())
    site.recompute()
    got = store.newest("grid").lookup([AccountQuery("zoe", "physics")])[0]
    assert got["provisional"] is True
    assert got["entry"] == "/physics"
    assert got["vector"] == [5416, 9999], "as its group, and without usage of its own"
    assert (got["rank"], got["of"], got["factor"]) == (1, 5, 1.0)


def test_a_new_user_has_the_rank_of_the_engine(make_site: Callable[..., Site]) -> None:
    """Beside idle siblings adding a member changes no other priority: then the approximation is exact."""
    made = make_site()
    algorithm = {"name": "aequus", "operator": "absolute", "factor_from": "key"}
    groups = [
        {"name": "physics", "shares": 1, "children": [{"name": "alice", "kind": "user", "shares": 0}]},
        {"name": "biology", "shares": 3, "children": [{"name": "carol", "kind": "user", "shares": 1}]},
    ]
    made.publish(groups, {"window": {"length_s": None, "aging": "none"}, "algorithm": algorithm})
    made.map(made.rule("/physics", kind="each", group_pattern="physics", suffix=""), made.rule())
    made.job("carol", "biology", 10)
    made.recompute()
    provisional = store.newest("grid").lookup([AccountQuery("zoe", "physics")])[0]
    groups[0]["children"].append({"name": "zoe", "kind": "user", "shares": 1})  # type: ignore[attr-defined]
    made.publish(groups)
    made.recompute()
    real = store.newest("grid").lookup([AccountQuery("zoe", "physics")])[0]
    assert real.pop("entry") == "/physics/zoe"
    assert provisional.pop("entry") == "/physics"
    assert provisional.pop("provisional")
    assert provisional == real


def test_the_key_of_gridwide_is_as_precise_as_its_rank(make_site: Callable[..., Site]) -> None:
    made = make_site()
    made.publish(PROJECTS, {"window": {"length_s": None, "aging": "none"}, "algorithm": {"name": "gridwide"}})
    made.map()
    made.job("alice", "physics", 50)
    made.job("carol", "biology", 50)
    made.recompute()
    got = store.newest("grid").lookup(["alice"])[0]
    assert got["priorities"] == pytest.approx([10.0, -50.0])
    assert got["vector"] is None
    assert got["key"] == "1100000000000" + "0500000000000"  # 110 and 50 points above −100, in steps of 1e-10


def test_inherited_shares_leave_no_component(make_site: Callable[..., Site]) -> None:
    made = make_site()
    made.publish(
        [
            {"name": "physics", "shares": "parent", "children": [{"name": "alice", "kind": "user", "shares": 1}]},
            {"name": "biology", "shares": 1, "children": [{"name": "carol", "kind": "user", "shares": 1}]},
        ]
    )
    made.map()
    made.job("alice", "physics", 3)
    made.job("carol", "biology", 1)
    made.recompute()
    got = store.newest("grid")
    alice, carol = got.lookup(["alice", "carol"])
    assert (len(alice["vector"]), len(carol["vector"])) == (1, 2)
    assert len(alice["key"]) == len(carol["key"]) == 8
    assert got.lookup([AccountQuery("x", "physics")])[0]["vector"] == []


def test_without_a_database_the_last_snapshot_is_served_with_its_age(site: Site) -> None:
    site.recompute()
    before = store.newest("grid")
    with _database_away():
        for hours in (1, 5):
            got = store.newest("grid")
            assert got is before
            assert got.age_s(AS_OF + timedelta(hours=hours)) == hours * 3600
        chip = freshness()
        assert (chip.state, chip.as_of) == ("warn", AS_OF)
        assert "no_database" in chip.keys
        with pytest.raises(NotFound):
            store.newest("nothing")
    site.job("dan", "biology", 2)
    newer = site.recompute()
    assert store.newest("grid").snapshot_id == newer.pk, "when it is back everything goes on by itself"
    assert freshness().state == "ok"


def test_a_process_that_starts_without_a_database_serves_the_disk_copy(site: Site) -> None:
    site.recompute()
    before = store.newest("grid").lookup(["alice", "nobody"])
    store.forget()
    with _database_away():
        got = store.newest("grid")
        assert got.lookup(["alice", "nobody"]) == before
        assert got.as_of == AS_OF


def _copies() -> Path:
    return Path(settings.VAR) / "snapshots"


def test_copies_are_private_and_a_damaged_one_is_not_served(site: Site) -> None:
    site.recompute()
    store.newest("grid")
    copies = [path for path in _copies().iterdir() if not path.name.startswith(".")]
    assert {oct(path.stat().st_mode & 0o077) for path in copies} == {"0o0"}
    assert sorted(path.suffix for path in copies) == [".places", ".snapshot", ".tree", ".values"]
    for path in copies:
        content = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        store.forget()
        with _database_away(), pytest.raises(Unavailable) as nothing:
            store.newest("grid")
        assert nothing.value.code == "no_database"
        path.write_bytes(content)
    store.forget()
    with _database_away():
        assert store.newest("grid").lookup(["alice"])[0]["rank"] == 2


def test_a_removed_policy_leaves_no_copy(site: Site) -> None:
    site.recompute()
    store.newest("grid")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE policies_policy SET slug = 'renamed'")
    assert store.newest("renamed").policy_slug == "grid"
    with pytest.raises(NotFound):
        store.newest("grid")
    assert not (_copies() / "grid.snapshot").exists()


def test_a_failing_disk_loses_the_copy_but_not_the_answer(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.recompute()
    store.forget()
    without_copies()
    with patch.object(mapped_columns, "write_columns", side_effect=OSError(28, "No space left on device")):
        assert store.newest("grid").lookup(["alice"])[0]["rank"] == 2
    assert "No space left on device" in caplog.text


def test_a_damaged_snapshot_is_rejected_and_the_previous_one_stays(site: Site) -> None:
    good = site.recompute()
    assert store.newest("grid").snapshot_id == good.pk
    site.job("dan", "biology", 2)
    damage(site.recompute())
    assert store.newest("grid").snapshot_id == good.pk


def damage(snapshot: Snapshot) -> None:
    data = bytearray(snapshot.data)
    data[len(data) // 2] ^= 1
    Snapshot.objects.filter(pk=snapshot.pk).update(data=bytes(data))


def test_numbers_that_this_release_derives_otherwise_are_not_served(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    good = site.recompute()
    site.job("dan", "biology", 2)
    newest = site.recompute()
    columns, meta = blobs.unpack(newest.data, newest.digest)
    derived = {**meta["derived"], "factor": meta["derived"]["factor"] ^ 1}
    data, digest = blobs.pack(columns, {**meta, "derived": derived, "engine_version": "0.1"})
    Snapshot.objects.filter(pk=newest.pk).update(data=data, digest=digest)
    assert store.newest("grid").snapshot_id == good.pk
    assert "derives other numbers than engine 0.1 did" in caplog.text


def test_damaged_places_of_accounts_are_replaced_by_the_next_recompute(site: Site) -> None:
    first = site.recompute()
    row = StoredPlaces.objects.get(pk=first.places_id)
    StoredPlaces.objects.update(data=bytes([row.data[0] ^ 1]) + bytes(row.data[1:]))
    without_copies()
    store.forget()
    with pytest.raises(Unavailable) as refusal:
        store.newest("grid")
    assert refusal.value.code == "no_snapshot"
    site.job("alice", "physics", 2)
    newest = site.recompute()
    assert newest.places_id == first.places_id
    assert store.newest("grid").snapshot_id == newest.pk
    assert store.load_stored("grid", first.pk).snapshot_id == first.pk, "older ones can be read again"


def test_places_of_accounts_are_stored_once_and_deleted_with_the_last_snapshot(site: Site) -> None:
    first = site.recompute()
    site.job("alice", "physics", 2)
    assert site.recompute().places_id == first.places_id
    site.job("eve", "biology", 2)
    site.map(site.rule("/biology", user_pattern="eve", suffix="/dan"), site.rule())
    last = site.recompute()
    assert set(StoredPlaces.objects.values_list("pk", flat=True)) == {first.places_id, last.places_id}
    Snapshot.objects.filter(places_id=first.places_id).delete()
    prune_snapshots(at=AS_OF + timedelta(minutes=1))
    assert StoredPlaces.objects.count() == 2, "a recompute may be about to refer to them"
    prune_snapshots(at=AS_OF + ALL_FOR + timedelta(minutes=1))
    assert StoredPlaces.objects.get().pk == last.places_id


def without_copies() -> None:
    for path in _copies().glob("*"):
        path.unlink()


def test_a_starting_process_serves_the_newest_valid_snapshot(site: Site) -> None:
    oldest = site.recompute()
    made = []
    for number in range(3):
        site.job("dan", "biology", 2 + number)
        made.append(site.recompute())
    damage(made[1])
    damage(made[2])
    without_copies()
    store.forget()
    assert store.newest("grid").snapshot_id == made[0].pk > oldest.pk
    assert store.state().damaged == {"grid": made[2].pk}
    site.job("dan", "biology", 9)
    newer = site.recompute()
    assert store.newest("grid").snapshot_id == newer.pk
    assert store.state().damaged == {}


def test_if_every_snapshot_is_damaged_look_ups_wait_for_the_next_recompute(site: Site) -> None:
    for number in range(2):
        site.job("dan", "biology", 2 + number)
        damage(site.recompute())
    without_copies()
    store.forget()
    with pytest.raises(Unavailable) as refusal:
        store.newest("grid")
    assert refusal.value.code == "no_snapshot"
    site.job("dan", "biology", 9)
    newer = site.recompute()
    assert store.newest("grid").snapshot_id == newer.pk


def test_another_server_may_give_the_same_id_to_another_snapshot(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.job("dan", "biology", 2)
    lost = site.recompute()
    store.poll()
    assert store.load_stored("grid", lost.pk).revision == store.newest("grid").revision
    number, known = lost.pk, store.newest("grid").lookup(["alice", "dan"])
    Snapshot.objects.all().delete()
    site.job("alice", "physics", 500)
    other = site.recompute()
    UnmappedAccounts.objects.all().delete()
    Snapshot.objects.filter(pk=other.pk).update(id=number)
    monkeypatch.setattr(store, "_NEWEST", store._NEWEST.replace("' since '", "' again since '"))
    store.poll()
    served = store.newest("grid")
    assert (served.snapshot_id, served.computed_at) == (number, other.computed_at)
    assert served.lookup(["alice", "dan"]) != known
    assert store.load_stored("grid", number).lookup(["alice", "dan"]) == served.lookup(["alice", "dan"])


def test_the_disk_copy_is_served_if_newer_than_every_valid_row(site: Site) -> None:
    site.recompute()
    site.job("dan", "biology", 2)
    newest = site.recompute()
    expected = store.newest("grid").lookup(["alice", "dan"])
    damage(newest)
    store.forget()
    got = store.newest("grid")
    assert (got.snapshot_id, got.lookup(["alice", "dan"])) == (newest.pk, expected)


def test_the_copy_of_another_snapshot_under_its_name_is_not_served(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.recompute()
    store.newest("grid")
    (older,) = _copies().glob("grid@*.values")
    content = older.read_bytes()
    site.job("dan", "biology", 2)
    site.recompute()
    expected = store.newest("grid").lookup(["alice", "dan"])
    (newer,) = _copies().glob("grid@*.values")
    assert newer != older
    newer.chmod(0o600)
    newer.write_bytes(content)
    store.forget()
    assert store.newest("grid").lookup(["alice", "dan"]) == expected
    assert f"{newer} can't be used and is made again: It is of values" in caplog.text
    assert newer.read_bytes() != content


def test_a_damaged_snapshot_is_read_once_and_logged_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.recompute()
    site.job("dan", "biology", 2)
    newest = site.recompute()
    damage(newest)
    store.forget()
    for _ in range(3):
        store.poll()
    collected = [record.getMessage() for record in caplog.records if record.name == store.__name__]
    assert len(collected) == 1
    assert f"Snapshot {newest.pk} of grid can't be read" in collected[0]


def test_an_unreadable_database_page_is_a_damaged_snapshot(site: Site) -> None:
    good = site.recompute()
    site.job("dan", "biology", 2)
    bad = site.recompute()
    without_copies()
    store.forget()
    read = snapshots.read_data

    def refuse(snapshot_id: int) -> bytes | None:
        if snapshot_id == bad.pk:
            with patch.object(snapshots, "_READ", "SELECT 1 / 0 WHERE %s > 0"):
                return read(snapshot_id)
        return read(snapshot_id)

    with patch.object(snapshots, "InternalError", DataError), patch.object(store, "read_data", refuse):
        assert store.newest("grid").snapshot_id == good.pk


def test_a_damaged_stored_snapshot_is_not_found(site: Site) -> None:
    kept = site.recompute()
    damage(kept)
    with pytest.raises(NotFound):
        store.load_stored("grid", kept.pk)


def test_a_new_snapshot_reuses_the_index(site: Site) -> None:
    site.recompute()
    older = store.newest("grid")
    older.lookup_json(["alice", "carol"])
    site.job("alice", "physics", 5)
    site.recompute()
    newer = store.newest("grid")
    assert newer.index is older.index
    ranks = {one["account"]: one["rank"] for one in orjson.loads(newer.lookup_json(["alice", "carol"]))}
    assert ranks == {one["account"]: one["rank"] for one in newer.lookup(["alice", "carol"])}
    site.publish(PROJECTS[:1])
    site.recompute()
    assert store.newest("grid").index is not newer.index


@pytest.mark.fault("F28")
def test_look_ups_never_wait_for_the_database(site: Site, django_assert_num_queries: object) -> None:
    """As in a real process, where a thread looks for new snapshots."""
    site.recompute()
    store.newest("grid")
    assert callable(django_assert_num_queries)
    with (
        patch.object(settings, "FAIRSHARE_SNAPSHOT_POLL_S", 1.0),
        patch.object(store._process, "_is_polled", True),
        django_assert_num_queries(0),
    ):
        assert store.newest("grid").lookup(["alice"])[0]["rank"] == 2


def test_a_thread_loads_new_snapshots(site: Site) -> None:
    """The loop itself, turn by turn instead of by the clock."""
    seen: list[int] = []

    class _EnoughError(BaseException):
        pass

    def turn(_seconds: float) -> None:
        snapshot = store._process.state.snapshots.get("grid")
        seen.append(snapshot.snapshot_id if snapshot else 0)
        if len(seen) == 3:
            raise _EnoughError
        site.job("alice", "physics", len(seen))
        site.recompute()

    with patch("apps.priorities.serving.store.time.sleep", turn), pytest.raises(_EnoughError):
        store._process._poll()
    assert seen[0] == 0
    assert 0 < seen[1] < seen[2]


def test_a_forked_process_polls_for_itself() -> None:
    """The thread that takes new snapshots over doesn't survive a fork, and its lock may have been held."""
    with patch.object(store._process, "_is_polled", True), store._process._lock:
        pid = os.fork()
        if not pid:
            os._exit(0 if not store._process._is_polled and not store._process._lock.locked() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_new_policy_is_queried_at_most_four_times_a_second(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "FAIRSHARE_SNAPSHOT_POLL_S", 1.0)
    monkeypatch.setattr(store._process, "start", lambda: None)
    now_s = time.monotonic()
    monkeypatch.setattr("apps.priorities.serving.store.time.monotonic", lambda: now_s)
    store._process._polled.set()
    store._process.state = store.State(has_database=True, polled_s=now_s)
    with pytest.raises(NotFound):
        store.newest("grid")
    store._process.state = store.State(has_database=True, polled_s=now_s - 1)
    with pytest.raises(Unavailable) as first:
        store.newest("grid")
    assert first.value.code == "no_snapshot"


def test_prepared_json_is_bounded(site: Site) -> None:
    site.recompute()
    got = replace(store.newest("grid"))
    with patch("apps.priorities.serving.served_snapshot._MOST_ANSWERS_CACHED", 3):
        for number in range(10):
            got.lookup_json([f"stranger{number}", "alice"])
    assert len(got._answers) <= 4


def test_lineages_of_many_entries_agree_with_the_engine(site: Site) -> None:
    site.recompute()
    got = store.newest("grid")
    entries = np.arange(len(got.tree))
    rows, depth_of = got.lineage(entries)
    for entry in entries.tolist():
        chain = [*got.tree.ancestors(entry), entry][1:]
        assert rows[entry, : depth_of[entry]].tolist() == chain


def test_a_name_of_several_namespaces_is_ambiguous_with_what_to_send(site: Site) -> None:
    site.map(
        site.rule("/physics", namespace="linux", suffix="/{user}"),
        site.rule("/biology", namespace="grid", suffix=""),
    )
    site.recompute()
    got = store.newest("grid")
    assert got.lookup(["bob"])[0]["entry"] == "/physics/bob", "the one entry that has the name"
    (found,) = got.lookup(["somebody"])
    hint = found.pop("hint")
    assert found == {
        "account": "somebody",
        "entry": None,
        "error": "ambiguous",
        "factor": 0.5,
        "choices": [{"namespace": "linux", "entry": "/physics"}, {"namespace": "grid", "entry": "/biology"}],
    }
    assert hint.endswith("Send the namespace: linux or grid.")
    assert orjson.loads(got.lookup_json(["somebody"]))[0] == {**found, "hint": hint}
    assert got.lookup_columns(["somebody"]) == (["somebody"], [0.5], [None])
    physics = got.tree.index_of_path("/physics")
    assert physics is not None
    (seen,) = got.lookup(["somebody"], mask=got.subtree_mask(got.tree.uuid(physics)))
    assert seen["entry"] == "/physics", "what the caller doesn't see makes nothing ambiguous"


def test_a_large_tree_is_one_file_for_its_revision_and_for_look_ups(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_LEAST_MAPPED_ENTRIES", 1)
    monkeypatch.setattr(mapped_columns, "MAPPED_BYTES", 1)
    tree_cache.clear()
    site.recompute()
    before = store.newest("grid").lookup(["alice"])
    (of_revision,) = files.directory().glob("*.tree")
    (served,) = _copies().glob("grid@*.tree")
    assert served.samefile(of_revision)
    of_revision.unlink()  # as other trees push it out
    tree_cache.clear()
    store.forget()
    assert store.newest("grid").lookup(["alice"]) == before
    assert not of_revision.exists(), "the served one is enough"
