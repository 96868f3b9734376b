"""Documents of usage: written and read again as they were, and refused as a whole with the place named."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import TooLarge
from apps.core.signing import BadDocument, SigningKey, canonical, open_document, read_canonical, sign_document
from apps.federation.documents import wire_usage
from apps.federation.documents.wire_usage import (
    Enforced,
    RunningRows,
    State,
    UsageDocument,
    UsageHead,
    read_usage,
    write_usage,
)
from apps.usage.bucket_deltas import AMOUNTS
from tests.each_case import each_case
from tests.refusals import refused

AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
NOW = int(AT.timestamp()) // 3600
ROOT = UUID(int=7)
KEY = SigningKey(bytes(range(32)))
MARKS = ("0123456789abcdef" * 2, "f" * 32)
COLUMNS = ("hours", "row_hour", "row_entry", "amounts")
RUNNING = ("entry", "start_us", "cpus", "gpus", "mem_gb", "nodes", "billing", "requested_s")

quanta = st.integers(0, 10**12 * 1024).map(lambda n: n / 1024)
amounts = st.tuples(*[quanta | st.just(0.0)] * 5, st.integers(0, 10**9).map(float))
rates = st.floats(0, 1e12)
jobs = st.tuples(
    st.integers(0, 4_000_000_000_000_000), rates, rates, rates, rates, rates, st.just(float("nan")) | rates
)


def head(**changes: Any) -> UsageHead:
    values: dict[str, Any] = {
        "issuer": "a.example",
        "feed": "vo-a",
        "root": ROOT,
        "number": 3,
        "since": 1,
        "more": False,
        "newest": State(3, MARKS[1]),
        "seen": State(1, MARKS[0]),
        "issued_at": AT,
        "expires_at": AT + timedelta(days=1),
        "site": "Site A",
        "capacity_cores": 1000.0,
        "enforces": Enforced("vo-a.example", "vo-a", 41),
    }
    return UsageHead(**{**values, **changes})


@st.composite
def documents(draw: st.DrawFn) -> UsageDocument:
    entries = sorted(draw(st.sets(st.integers(1, 2**128 - 1), max_size=5)))
    hours = sorted(draw(st.sets(st.integers(0, NOW), max_size=4)))
    keys = [
        (hour, entry)
        for hour in hours
        for entry in (sorted(draw(st.sets(st.integers(0, len(entries) - 1)))) if entries else [])
    ]
    rows = [draw(amounts) for _ in keys]
    running = (
        draw(st.none() | st.lists(st.tuples(st.integers(0, len(entries) - 1), jobs), max_size=4)) if entries else None
    )
    return UsageDocument(
        head(enforces=draw(st.sampled_from([None, Enforced("vo-a.example", "vo-a", 1)]))),
        [UUID(int=one) for one in entries],
        np.array(hours, np.int64),
        np.array([hour for hour, _ in keys], np.int64),
        np.array([entry for _, entry in keys], np.int64),
        np.array(rows, np.float64).reshape(len(rows), len(AMOUNTS)),
        None if running is None else _running(running),
    )


def _running(rows: list[tuple[int, Any]]) -> RunningRows:
    table = np.array([(entry, *job) for entry, job in rows], np.float64).reshape(len(rows), 8)
    whole = table[:, :2].astype(np.int64)
    return RunningRows(whole[:, 0], whole[:, 1], *(table[:, place] for place in range(2, 8)))


@given(documents())
def test_a_usage_document_survives_the_round_trip_through_signed_bytes(document: UsageDocument) -> None:
    data = sign_document(write_usage(document), KEY)
    found = read_usage(open_document(data, trusted=None).document)
    assert (found.head, list(found.entries)) == (document.head, list(document.entries))
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(found, name), getattr(document, name))
    assert (found.running is None) == (document.running is None)
    if found.running is not None and document.running is not None:
        for name in RUNNING:
            np.testing.assert_array_equal(getattr(found.running, name), getattr(document.running, name))
    assert sign_document(write_usage(found), KEY) == data


U = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2, 3)]


def good() -> dict[str, Any]:
    return {
        "format": "fairshare-usage/1",
        "issuer": "a.example",
        "feed": "vo-a",
        "root": U[0],
        "number": 3,
        "since": 1,
        "more": False,
        "newest": {"number": 3, "mark": MARKS[1]},
        "seen": {"number": 1, "mark": MARKS[0]},
        "issued_at": "2026-11-20T12:30:00Z",
        "expires_at": "2026-11-21T12:30:00Z",
        "site": "Site A",
        "capacity": {"cores": 1000},
        "enforces": {"issuer": "vo-a.example", "publication": "vo-a", "version": 41},
        "entries": list(U),
        "hours": [
            {"hour": "2026-11-20T10:00:00Z", "entry": [0, 2], "cpu_s": [3600, 0.5], "jobs": [1, 0]},
            {"hour": "2026-11-20T11:00:00Z", "entry": [], "cpu_s": []},
            {"hour": "2026-11-20T12:00:00Z", "entry": [1], "cpu_s": [0], "gpu_s": [7]},
        ],
        "running": {
            "entry": [1, 1],
            "start": [1795000000.5, 1795000001],
            "cpus": [4, 1],
            "requested_s": [None, 3600],
            "gpus": [0, 2],
        },
    }


def test_omitted_columns_are_zero_and_empty_hours_are_reported() -> None:
    found = read_usage(good())
    assert (found.hours - found.hours[0]).tolist() == [0, 1, 2]
    assert (found.row_hour - found.hours[0]).tolist() == [0, 0, 2]
    assert found.row_entry.tolist() == [0, 2, 1]
    assert found.amounts.tolist() == [[3600, 0, 0, 0, 0, 1], [0.5, 0, 0, 0, 0, 0], [0, 7, 0, 0, 0, 0]]
    assert found.running is not None
    assert found.running.gpus.tolist() == [0, 2]
    assert found.running.nodes.tolist() == [0, 0]
    assert found.running.start_us.tolist() == [1795000000500000, 1795000001000000]
    assert np.isnan(found.running.requested_s[0])
    assert found.head.enforces == Enforced("vo-a.example", "vo-a", 41)


def _at(document: dict[str, Any], path: tuple[str | int, ...], value: object) -> None:
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value


NAN, INF = float("nan"), float("inf")


@each_case(
    ("path", "value", "where"),
    [
        (("format",), "fairshare-usage/2", "format"),
        (("format",), ..., "format"),
        (("issuer",), ..., "issuer"),
        (("token",), "x", "token"),
        (("issuer",), "A.example", "issuer"),
        (("feed",), "../x", "feed"),
        (("root",), "x", "root"),
        (("root",), U[0].replace("-", ""), "root"),
        (("root",), str(UUID(int=0)), "root"),
        (("number",), -1, "number"),
        (("number",), 3.5, "number"),
        (("number",), True, "number"),
        (("number",), 2**53 + 1, "number"),
        (("since",), 4, "since"),
        (("since",), None, "since"),
        (("number",), 0, "number"),
        (("newest",), ..., "newest"),
        (("newest",), None, "newest"),
        (("newest",), MARKS[1], "newest"),
        (("newest", "number"), ..., "newest.number"),
        (("newest", "number"), 2, "newest.number"),
        (("newest", "number"), 3.0, "newest.number"),
        (("newest", "number"), 4, "more"),
        (("newest", "mark"), ..., "newest.mark"),
        (("newest", "mark"), None, "newest.mark"),
        (("newest", "mark"), 7, "newest.mark"),
        (("newest", "mark"), "f" * 31, "newest.mark"),
        (("newest", "mark"), "f" * 33, "newest.mark"),
        (("newest", "mark"), "F" * 32, "newest.mark"),
        (("newest", "mark"), "g" * 32, "newest.mark"),
        (("newest", "mark"), "f" * 31 + "\n", "newest.mark"),
        (("newest", "mark"), "f" * 32 + "\n", "newest.mark"),
        (("newest", "mark"), "\u0660" * 32, "newest.mark"),
        (("newest", "issuer"), "x", "newest.issuer"),
        (("seen",), ..., "seen"),
        (("seen",), None, "seen"),
        (("seen", "mark"), "", "seen.mark"),
        (("seen", "mark"), [MARKS[0]], "seen.mark"),
        (("seen", "number"), 0, "seen.number"),
        (("seen", "number"), 4, "seen.number"),
        (("seen", "number"), 3, "seen.mark"),
        (("seen", "number"), True, "seen.number"),
        (("more",), 1, "more"),
        (("issued_at",), "2026-11-20", "issued_at"),
        (("expires_at",), "2026-11-20T12:30:00Z", "expires_at"),
        (("expires_at",), "2026-11-21T12:30:00+00:00", "expires_at"),
        (("site",), "", "site"),
        (("site",), "a\nb", "site"),
        (("site",), "<b>", "site"),
        (("site",), "x" * 65, "site"),
        (("site",), 7, "site"),
        (("capacity",), 5, "capacity"),
        (("capacity",), {}, "capacity.cores"),
        (("capacity", "gpus"), 5, "capacity.gpus"),
        (("capacity", "cores"), 0, "capacity.cores"),
        (("capacity", "cores"), NAN, "capacity.cores"),
        (("capacity", "cores"), INF, "capacity.cores"),
        (("capacity", "cores"), "5", "capacity.cores"),
        (("enforces",), [], "enforces"),
        (("enforces", "version"), 0, "enforces.version"),
        (("enforces", "publication"), "", "enforces.publication"),
        (("enforces", "issuer"), ..., "enforces.issuer"),
        (("entries",), {}, "entries"),
        (("entries", 1), U[0], "entries[1]"),
        (("entries", 1), U[2], "entries[2]"),
        (("entries", 0), "00000000-0000-0000-0000-00000000000A", "entries[0]"),
        (("entries", 2), 5, "entries[2]"),
        (("hours",), None, "hours"),
        (("hours", 1), [], "hours[1]"),
        (("hours", 1, "hour"), "2026-11-20T11:30:00Z", "hours[1].hour"),
        (("hours", 1, "hour"), "1969-12-31T23:00:00Z", "hours[1].hour"),
        (("hours", 1, "hour"), "2026-11-20T10:00:00Z", "hours[1].hour"),
        (("hours", 1, "hour"), "2026-11-20T09:00:00Z", "hours[1].hour"),
        (("hours", 2, "hour"), "2026-11-20T13:00:00Z", "hours[2].hour"),
        (("hours", 2, "hour"), 5, "hours[2].hour"),
        (("hours", 1, "cpu_s"), ..., "hours[1].cpu_s"),
        (("hours", 1, "user"), ["anna"], "hours[1].user"),
        (("hours", 0, "cpu_s"), [1], "hours[0].cpu_s"),
        (("hours", 0, "cpu_s"), "ab", "hours[0].cpu_s"),
        (("hours", 2, "gpu_s"), [1, 2], "hours[2].gpu_s"),
        (("hours", 0, "entry"), [2, 0], "hours[0].entry[1]"),
        (("hours", 0, "entry"), [2, 2], "hours[0].entry[1]"),
        (("hours", 0, "entry"), [0, 3], "hours[0].entry[1]"),
        (("hours", 2, "entry"), [-1], "hours[2].entry[0]"),
        (("hours", 2, "entry"), [0.5], "hours[2].entry[0]"),
        (("hours", 2, "entry"), [True], "hours[2].entry[0]"),
        (("hours", 2, "entry"), [10**30], "hours[2].entry[0]"),
        (("hours", 2, "cpu_s"), [-1], "hours[2].cpu_s[0]"),
        (("hours", 0, "cpu_s", 1), NAN, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), INF, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), 1e12 + 1, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), 10**400, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), 0.1, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), "5", "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), None, "hours[0].cpu_s[1]"),
        (("hours", 0, "cpu_s", 1), False, "hours[0].cpu_s[1]"),
        (("hours", 2, "gpu_s"), [1 / 2048], "hours[2].gpu_s[0]"),
        (("hours", 0, "jobs", 0), 0.5, "hours[0].jobs[0]"),
        (("running",), [], "running"),
        (("running", "cpus"), ..., "running.cpus"),
        (("running", "user"), [], "running.user"),
        (("running", "cpus"), [1], "running.cpus"),
        (("running", "entry", 1), 3, "running.entry[1]"),
        (("running", "start", 0), -1, "running.start[0]"),
        (("running", "start", 0), 1e11, "running.start[0]"),
        (("running", "start", 0), None, "running.start[0]"),
        (("running", "cpus", 1), -0.5, "running.cpus[1]"),
        (("running", "gpus", 1), NAN, "running.gpus[1]"),
        (("running", "requested_s", 1), -1, "running.requested_s[1]"),
        (("running", "requested_s", 1), "1", "running.requested_s[1]"),
    ],
)
def test_invalid_input_is_rejected_as_a_whole_with_its_location(
    path: tuple[str | int, ...], value: object, where: str
) -> None:
    document = good()
    _at(document, path, value)
    with pytest.raises(BadDocument) as refusal:
        read_usage(document)
    assert [one.where for one in refusal.value.fields] == [where]
    assert where in refusal.value.message


def test_a_continued_document_needs_a_later_number() -> None:
    with refused(BadDocument, field="more"):
        read_usage(good() | {"more": True, "since": 3})
    assert read_usage(good() | {"more": True}).head.more


def test_the_seen_number_is_zero_at_first_and_above_the_applied_one_midway() -> None:
    with refused(BadDocument, field="seen"):
        read_usage(good() | {"since": 0})
    assert read_usage(good() | {"since": 0, "seen": None}).head.seen is None
    later = {"number": 7, "mark": MARKS[0]}
    found = read_usage(good() | {"more": True, "newest": later, "seen": {"number": 5, "mark": MARKS[1]}}).head
    assert (found.number, found.newest, found.seen) == (3, State(7, MARKS[0]), State(5, MARKS[1]))
    with refused(BadDocument, field="seen.number"):
        read_usage(good() | {"since": 2})  # it knew less than it had read


@pytest.mark.parametrize(
    ("limit", "most"),
    [("MOST_DOCUMENT_ROWS", 3), ("MOST_DOCUMENT_ENTRIES", 3), ("MOST_DOCUMENT_HOURS", 3), ("MOST_RUNNING", 2)],
)
def test_oversized_documents_are_rejected(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(wire_usage, limit, most)
    read_usage(good())
    monkeypatch.setattr(wire_usage, limit, most - 1)
    with refused(TooLarge, naming=str(most - 1)):
        read_usage(good())


@given(st.data())
def test_no_single_changed_value_crashes_the_parser(data: st.DataObject) -> None:
    """Any value in any place: it is read, or refused as a bad document, nothing else."""
    document = copy.deepcopy(good())
    target: Any = document
    keys: list[Any] = list(document)
    while True:
        key = data.draw(st.sampled_from(keys))
        inner = target[key]
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys or data.draw(st.booleans()):
            break
        target = inner
    odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    target[key] = data.draw(odd | st.lists(odd, max_size=3) | st.dictionaries(st.text(max_size=5), odd, max_size=2))
    with contextlib.suppress(BadDocument, TooLarge):
        read_usage(document)


def _large(n_hours: int, n_entries: int) -> UsageDocument:
    rng = np.random.default_rng(1)
    n = n_hours * n_entries
    hours = np.arange(NOW - n_hours, NOW)
    table = np.zeros((n, len(AMOUNTS)))
    table[:, :3] = rng.integers(0, 3600 * 1024 * 64, (n, 3)) / 1024
    table[:, 5] = rng.integers(0, 9, n)
    return UsageDocument(
        head(),
        [UUID(int=one + 1) for one in range(n_entries)],
        hours,
        np.repeat(hours, n_entries),
        np.tile(np.arange(n_entries), n_hours),
        table,
    )


@pytest.mark.deep
def test_half_a_million_rows_are_written_and_read_completely() -> None:
    document = _large(24, 20_833)
    found = read_usage(read_canonical(canonical(write_usage(document)), "line 1"))
    np.testing.assert_array_equal(found.amounts, document.amounts)


@pytest.mark.parametrize(
    "change", [lambda body: body.replace(b"[0,", b"[00,", 1), lambda body: body.replace(b"3600", b"3.6e3", 1)]
)
def test_each_number_has_one_encoding(change: Callable[[bytes], bytes]) -> None:
    body = canonical(good())
    assert change(body) != body
    with pytest.raises(BadDocument):
        read_canonical(change(body), "line 1")
