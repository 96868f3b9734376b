from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.usage.parsers import json_items, slurm_json
from apps.usage.parsers.base import instant
from apps.usage.parsers.json_items import JsonItems
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_json import RejectedJob, seconds_of
from apps.usage.parsers.slurm_values import number_of
from tests.usage.parsers.slurm_files import READING, facts, read, states

T0 = 1_767_225_600


def number(value: float | None, *, infinite: bool = False) -> dict[str, Any]:
    """As Slurm 23.02 and later write numbers that may be missing."""
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def old(job_id: Any = 4711, **given: Any) -> dict[str, Any]:
    """A job in the format of 21.08 and 22.05."""
    time = {"elapsed": 3600, "submission": T0, "start": T0 + 60, "end": T0 + 3660, "suspended": 0, "limit": 120}
    allocated = [
        {"type": "cpu", "name": None, "id": 1, "count": 8},
        {"type": "mem", "name": None, "id": 2, "count": 16384},
        {"type": "energy", "name": None, "id": 3, "count": None},
        {"type": "node", "name": None, "id": 4, "count": 1},
        {"type": "billing", "name": None, "id": 5, "count": 8},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
        {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 2},
    ]
    job: dict[str, Any] = {
        "account": "physics",
        "array": {"job_id": 0, "task": None, "task_id": None},
        "association": {"account": "beta", "cluster": "elsewhere", "partition": None, "user": "cat"},
        "cluster": "fram",
        "job_id": job_id,
        "partition": "normal",
        "qos": "high",
        "required": {"CPUs": 8, "memory": 100},
        "reservation": {"id": 0, "name": 0},
        "state": {"current": "COMPLETED", "reason": "None"},
        "steps": [{"time": {"start": T0 + 60, "end": T0 + 3660}, "state": "COMPLETED"}] * 3,
        "time": time,
        "tres": {"allocated": allocated, "requested": allocated[:1]},
        "user": "ada",
    }
    return job | given


def new(job_id: int = 4711, **given: Any) -> dict[str, Any]:
    """That job in the format of 23.02 to 24.11."""
    job = old(job_id)
    job["time"] |= {"limit": number(120), "start": T0 + 60, "planned": number(60)}
    job["state"] = {"current": ["COMPLETED"], "reason": "None"}
    job["required"] = {"CPUs": 8, "memory_per_cpu": number(None), "memory_per_node": number(100)}
    job["reservation"] = {"id": 0, "name": "", "requested": ""}
    job["array"] = {"job_id": 0, "task": "", "task_id": number(None)}
    return job | given


def document(*jobs: Any, indent: int | None = None, **others: Any) -> str:
    return json.dumps({"meta": {}, "errors": [], "jobs": list(jobs)} | others, indent=indent)


def parse(text: str | bytes) -> Any:
    return read(text, READING, SacctJson())


@pytest.mark.parametrize("job", [old, new])
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_every_version_gives_the_same_record(job: Callable[..., dict[str, Any]], indent: int | None) -> None:
    found = parse(document(job(), job(4712, user="bo"), indent=indent))
    batch = found.batch
    assert (found.rejections, batch.job.tolist(), batch.line.tolist()) == ([], [b"4711", b"4712"], [1, 2])
    assert [batch.people[code][:2] for code in batch.who] == [("ada", "physics"), ("bo", "physics")]
    assert batch.job_classes[batch.job_class[0]] == ("", "normal", "high")
    assert [batch.cpus[0], batch.gpus[0], batch.mem_mb[0], batch.nodes[0], batch.billing[0]] == [8, 2, 16384, 1, 8]
    assert (batch.cluster[0], batch.requested_s[0]) == (b"fram", 7200)
    assert instant(int(batch.start_us[0])) == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert instant(int(batch.end_us[0])) == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "times", "expected"),
    [
        ("RUNNING", {"end": 0}, [0, 1, 0, 0]),
        (["RUNNING"], {}, [0, 1, 0, 0]),  # slurmrestd reports the time of the request as the end
        (["COMPLETED", "COMPLETING"], {}, [0, 0, 1, 0]),
        (["RUNNING", "COMPLETING"], {"end": 0}, [0, 1, 0, 0]),
        (["PENDING"], {"start": T0 + 99, "end": T0 + 99}, [1, 0, 0, 0]),
        (["CANCELLED"], {"start": 0}, [0, 0, 0, 1]),
        (["PREEMPTED"], {}, [0, 0, 1, 0]),
        ([], {}, [0, 0, 1, 0]),
    ],
)
def test_states_with_and_without_flags_are_read(state: Any, times: dict[str, int], expected: list[int]) -> None:
    found = parse(document(new(state={"current": state}, time=new()["time"] | times)))
    assert (states(found.batch), found.rejections) == (expected, [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5.0),
        ("5", 5.0),
        (None, None),
        (number(5), 5.0),
        (number(None), None),
        (number(5, infinite=True), None),
        (0xFFFFFFFE, None),
        (0xFFFFFFFF, None),
        (True, None),
        ([5], None),
        ({"number": {"number": 5}}, None),
        (float("inf"), None),
    ],
)
def test_plain_and_optional_numbers_are_read(value: Any, expected: float | None) -> None:
    assert number_of(value) == expected


def test_a_waiting_array_counts_all_its_tasks() -> None:
    waiting: dict[str, Any] = {
        "state": {"current": ["PENDING"]},
        "tres": {"allocated": [], "requested": [{"type": "cpu", "count": 3}]},
    }
    assert parse(document(new(**waiting, array={"job_id": 40, "task": "0-3%2"}))).batch.cpus.tolist() == [12]
    assert parse(document(new(**waiting, array={"job_id": 40, "task": "0xF"}))).batch.cpus.tolist() == [12]


def test_suspension_time_is_charged() -> None:
    batch = parse(document(new(time=new()["time"] | {"elapsed": 600}))).batch
    assert (batch.end_us - batch.start_us).tolist() == [3_600_000_000]


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (old(0), "bad_job"),
        (old(job_id="x"), "bad_job"),
        (old(user=None), "no_user"),
        (old(user="a\x00b"), "bad_text"),
        (old(account="x" * 300), "bad_text"),
        (old(time=old()["time"] | {"end": "soon"}), "bad_time"),
        (old(time=old()["time"] | {"end": -5}), "bad_time"),
        (old(time=old()["time"] | {"end": T0}), "end_before_start"),
        (old(time=old()["time"] | {"end": 1e15}), "absurd_time"),
        (old(tres={"allocated": [{"type": "cpu", "count": 1e12}, {"type": "node", "count": 1}]}), "absurd_number"),
        (old(tres={"allocated": [{"type": "node", "count": 1}]}, required={}), "no_processors"),
        ([[[]]], "not_an_object"),
        ("a text", "not_an_object"),
        (5, "not_an_object"),
        (None, "not_an_object"),
    ],
)
def test_implausible_values_are_rejected_with_their_index(job: Any, code: str) -> None:
    found = parse(document(old(1), job, old(3)))
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(2, code)]
    assert len(found.rejections[0].message) > 20
    assert found.batch.job.tolist() == [b"1", b"3"]


def test_an_invalid_number_rejects_its_job_only() -> None:
    for bad in ("NaN", "Infinity", "-Infinity", "01", "1e", "tru"):
        text = document(old(1), old(2), old(3)).replace('"job_id": 2', f'"job_id": {bad}')
        assert [(r.line, r.code) for r in parse(text).rejections] == [(2, "bad_json")], bad
    text = document(old(1), old(2)).replace(f'"end": {T0 + 3660}', '"end": 1e999', 1)
    assert [r.line for r in parse(text).rejections] == [1]


def test_an_association_of_the_same_cluster_names_a_deleted_user() -> None:
    association = {"account": "physics", "cluster": "fram", "user": "eve"}
    batch = parse(document(old(user="", association=association))).batch
    assert batch.people[batch.who[0]].user == "eve"


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_document_with_a_slurm_error_is_rejected(at: str) -> None:
    errors = [{"description": "Access denied to the database", "error_number": 2}]
    parts: dict[str, Any] = {"errors": errors, "jobs": [old()]}
    text = json.dumps(parts if at == "before" else dict(reversed(parts.items())))
    with pytest.raises(Invalid, match="Access denied") as caught:
        parse(text)
    assert caught.value.code == "source_error"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"jobs": 5}', '{"users": []}', "nothing", '{"jobs"'])
def test_a_document_without_jobs_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match='no list "jobs"') as caught:
        parse(text)
    assert caught.value.code == "no_jobs"


def test_an_empty_list_is_not_an_error() -> None:
    found = parse(document())
    assert (len(found.batch), found.rejections) == (0, [])


def test_a_truncated_document_gives_its_complete_jobs_and_the_location() -> None:
    text = document(old(1), old(2), old(3), indent=2)
    found = parse(text[: text.rindex('"job_id"')])
    assert found.batch.job.tolist() == [b"1", b"2"]
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(3, "cut_off")]
    assert "byte" in found.rejections[0].message


@pytest.mark.parametrize("indent", [None, 2])
def test_reading_resumes_after_any_chunk(monkeypatch: pytest.MonkeyPatch, indent: int | None) -> None:
    data = document(*(old(n) for n in range(1, 30)), {"job_id": 0}, *(new(n) for n in range(31, 60)), indent=indent)
    stream = io.BytesIO(data.encode())
    (whole,) = SacctJson().parse(stream, READING)
    assert (len(whole.batch), [r.line for r in whole.rejections]) == (58, [30])
    monkeypatch.setattr(slurm_json, "_PIECE_JOBS", 7)
    monkeypatch.setattr(json_items, "_READ", 100)
    pieces = list(SacctJson().parse(stream, READING))
    assert len(pieces) == 9
    for n, piece in enumerate(pieces):
        resume = json.loads(json.dumps(piece.resume))
        parts = [*pieces[: n + 1], *SacctJson().parse(stream, READING, resume=resume)]
        assert [fact for part in parts for fact in facts(part.batch)] == facts(whole.batch)
        assert [(r.line, r.code) for part in parts for r in part.rejections] == [(30, "bad_job")]
        assert sum(part.n_lines for part in parts) == 59


def test_jobs_longer_than_the_limit_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_items, "MOST_ITEM_BYTES", 20_000)
    monkeypatch.setattr(json_items, "_READ", 1000)
    tricky = 'a "quoted" {[ brace \\ and more ' * 2000
    jobs: tuple[Any, ...] = (
        old(1),
        old(2, comment=tricky),
        old(3, steps=[[[{}] * 20_000]]),
        tricky,
        [[]] * 20_000,
        old(6),
    )
    for indent in (None, 1):
        found = parse(document(*jobs, indent=indent))
        assert found.batch.job.tolist() == [b"1", b"6"]
        assert [(r.line, r.code) for r in found.rejections] == [(n, "job_too_long") for n in (2, 3, 4, 5)]


class Endless(io.RawIOBase):
    """The beginning of a document and then the same bytes again and again, 32 MB of them."""

    def __init__(self, beginning: bytes, more: bytes) -> None:
        self._flow = iter([beginning, *[more * (2**20 // len(more))] * 32])
        self.most_asked = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        return 0

    def read(self, n: int = -1) -> bytes:
        self.most_asked = max(self.most_asked, n)
        return next(self._flow, b"")


@pytest.mark.parametrize("more", [b"[", b"{", b"9", b'"\\', b"a", b'{"a":['])
def test_endless_nesting_texts_and_numbers_use_bounded_memory(more: bytes) -> None:
    stream = Endless(b'{"jobs": [' + (b'"' if more == b"a" else b""), more)
    rejections = [r for piece in SacctJson().parse(cast(Any, stream), READING) for r in piece.rejections]
    assert rejections[-1].code == "cut_off"
    assert stream.most_asked <= 16 * 1024**2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(alphabet='ab"\\{}[],:\n é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(items=st.lists(VALUES, max_size=6), indent=st.sampled_from([None, 0, 1, 4]), read_bytes=st.integers(1, 64))
def test_items_are_independent_of_chunk_boundaries(items: list[Any], indent: int | None, read_bytes: int) -> None:
    text = json.dumps({"a": {"jobs": [1]}, "jobs": items, "z": items}, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_items, "_READ", read_bytes)
        found = JsonItems(io.BytesIO(text), "jobs")
        assert [json.loads(item.data) for item in found] == items
        assert (found.problem, found.was_found) == ("", True)
        ends = [item.end_offset for item in JsonItems(io.BytesIO(text), "jobs")]
        for number_, end in enumerate(ends, start=1):
            stream = io.BytesIO(text)
            stream.seek(end)
            rest = JsonItems(stream, "jobs", offset=end, number=number_)
            assert [json.loads(item.data) for item in rest] == items[number_:]


@given(junk=st.binary(max_size=60), at=st.integers(0, 3000))
@pytest.mark.fault("F29")
def test_invalid_bytes_anywhere_are_rejected_in_finite_time(junk: bytes, at: int) -> None:
    data = document(old(1), new(2), indent=1).encode()
    try:
        found = parse(data[:at] + junk + data[at:])
    except Invalid as invalid:
        assert invalid.code in ("no_jobs", "source_error")  # noqa: PT017 - or it is read
        return
    assert len(found.batch) + len(found.rejections) >= 1, "nothing is left out without a word"
    for rejection in found.rejections:
        assert rejection.code
        assert rejection.message


def test_a_byte_order_mark_and_blanks_before_a_document_are_skipped() -> None:
    plain = parse(document(old()))
    for before in (b"\xef\xbb\xbf", b" \n", b"\xef\xbb\xbf\n\t "):
        parsed = parse(before + document(old()).encode())
        assert (parsed.rejections, parsed.batch.job.tolist()) == ([], plain.batch.job.tolist())


def test_a_time_that_is_needed_says_what_is_wrong_with_it() -> None:
    wrong: tuple[tuple[Any, str], ...] = (
        (-5, "start is -5, below zero."),
        ("soon", "start is soon: it must be a number of seconds."),
    )
    for value, message in wrong:
        with pytest.raises(RejectedJob) as refused:
            seconds_of("start", value)
        assert (refused.value.code, refused.value.message) == ("bad_time", message)
        assert seconds_of("start", value, is_needed=False) is None
    missing: list[Any] = [None, {}, 0, 7.5]
    assert [seconds_of("start", each) for each in missing] == [None, None, 0, 7.5]
