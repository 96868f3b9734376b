"""How rows are separated: bars and line ends in free text, cuts anywhere, lines of any length."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.usage.parsers import lines, sacct_rows
from apps.usage.parsers import sacct as sacct_module
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.sacct import Sacct
from apps.usage.parsers.sacct_header import Columns
from tests.usage.parsers.slurm_files import READING, facts, only, read, sacct

NEEDED = ("JobIDRaw", "User", "State", "Submit", "Start", "End", "AllocCPUS")
# Whatever people write, but no digits: a name that spells a whole row can't be distinguished from one.
FREE = st.text(alphabet="ab| \n\t'\"=,;", max_size=30)


def with_free(*free: tuple[str, int]) -> list[str]:
    """The columns that are needed, and free ones at some places."""
    columns = list(NEEDED)
    for name, place in free:
        columns.insert(place, name)
    return columns


@given(place=st.integers(1, len(NEEDED)), names=st.lists(FREE, min_size=1, max_size=6))
def test_one_free_text_column_hides_no_job_at_any_position(place: int, names: list[str]) -> None:
    jobs = [{"JobIDRaw": str(n), "AllocCPUS": str(n), "JobName": name} for n, name in enumerate(names, start=1)]
    found = read(sacct(*jobs, columns=with_free(("JobName", place))))
    assert found.rejections == []
    assert found.batch.job.tolist() == [job["JobIDRaw"].encode() for job in jobs]
    assert found.batch.cpus.tolist() == [float(job["AllocCPUS"]) for job in jobs]


@example(places=(7, 3), names=[("\n;", ""), ("", "|")])  # an ambiguous row is not the end of a name
@given(
    places=st.tuples(*[st.integers(1, len(NEEDED))] * 2),
    names=st.lists(st.tuples(FREE, FREE), min_size=1, max_size=6),
)
def test_two_free_text_columns_may_reject_a_job_but_never_change_one(
    places: tuple[int, int], names: list[tuple[str, str]]
) -> None:
    jobs = [
        {"JobIDRaw": str(n), "AllocCPUS": str(n), "User": f"u{n}", "JobName": name, "Comment": comment}
        for n, (name, comment) in enumerate(names, start=1)
    ]
    found = read(sacct(*jobs, columns=with_free(("JobName", places[0]), ("Comment", places[1]))))
    taken = {job[1]: job for job in facts(found.batch)}
    assert len(taken) == len(found.batch)
    assert bool(found.rejections) == (len(taken) < len(jobs))
    for job in jobs:
        fact = taken.get(job["JobIDRaw"].encode())
        assert fact is None or (fact[9], fact[10].user) == (float(job["AllocCPUS"]), job["User"])


@given(data=st.binary(max_size=400) | st.text(alphabet="|\n15ab[]_.+", max_size=400).map(str.encode))
def test_invalid_lines_are_rejected_one_by_one(data: bytes) -> None:
    head = sacct({}, columns=with_free(("JobName", 3))).encode()
    found = read(head + data)
    assert found.batch.line.tolist()[:1] == [2]
    assert all(rejection.line >= 2 and rejection.message for rejection in found.rejections)
    with pytest.raises(Invalid, match="names no column"):
        read(b"\x00" + data)


def test_an_ambiguous_bar_is_accepted_if_both_readings_agree() -> None:
    columns = with_free(("JobName", 2), ("Comment", 2))
    assert only(sacct({"Comment": "a|b", "JobName": "c"}, columns=columns)).cpus.tolist() == [8]


def test_an_ambiguous_row_is_rejected() -> None:
    """The account between two free texts could be either word."""
    columns = ["JobName", "Account", "Comment", *NEEDED]
    found = read(sacct({"JobName": "a|b"}, columns=columns))
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(2, "ambiguous_row")]
    assert "--json" in found.rejections[0].message


def test_a_truncated_row_affects_no_other_row() -> None:
    whole = sacct({}, {"JobIDRaw": "4712"}, {"JobIDRaw": "4713"})
    rows = whole.splitlines(keepends=True)
    found = read("".join([rows[0], rows[1], rows[2][:40] + "\n", rows[3]]))
    assert found.batch.job.tolist() == [b"4711", b"4713"]
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(3, "too_few_fields")]
    at_end = read(whole[:-60])
    assert at_end.batch.job.tolist() == [b"4711", b"4712"]
    assert [rejection.line for rejection in at_end.rejections] == [4]


def test_lines_without_a_preceding_row_are_rejected() -> None:
    columns = with_free(("SubmitLine", len(NEEDED)))
    text = sacct({"SubmitLine": "srun a\nsrun b | tee c\n"}, columns=columns)
    found = read(text)
    assert (found.batch.job.tolist(), found.rejections, found.notes) == ([b"4711"], [], {"lines_joined": 1})
    header, rest = text.split("\n", 1)
    stray = read(f"{header}\nnot a row\n{rest}")
    assert stray.batch.job.tolist() == [b"4711"]
    assert [(rejection.line, rejection.code) for rejection in stray.rejections] == [(2, "too_few_fields")]


def test_unparsable_rows_are_rejected_quickly() -> None:
    """What is tried is bounded: by the extra bars of a row, and by the number of lines that it may span."""
    columns = with_free(("JobName", 2), ("Comment", 5))
    bad = sacct({"Start": "never", "JobName": "|" * 290}, columns=columns).split("\n")[1] + "\n"
    tries: list[int] = []
    align = sacct_rows.align

    def counted(fields: list[bytes], columns: Columns) -> sacct_rows.Fields | None:
        tries.append(len(fields))
        return align(fields, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sacct_rows, "align", counted)
        found = read(sacct(columns=columns) + (bad + "x\n" * 100) * 10)
    assert len(found.batch) == 0
    assert {rejection.code for rejection in found.rejections} <= {"ambiguous_row", "too_few_fields"}
    assert len(tries) <= 10 * 25
    assert max(tries) < 700


def test_an_overlong_line_is_rejected_and_its_neighbours_are_accepted() -> None:
    long = sacct({}, {"JobIDRaw": "2", "JobName": "x" * (MOST_LINE_BYTES + 1)}, {"JobIDRaw": "3"})
    pieces = list(Sacct().parse(io.BytesIO(long.encode()), READING))
    assert [job for piece in pieces for job in piece.batch.job.tolist()] == [b"4711", b"3"]
    refused = [(rejection.line, rejection.code) for piece in pieces for rejection in piece.rejections]
    assert refused == [(3, "line_too_long")]


class Gigabyte(io.RawIOBase):
    """A good row, one line of 1 GB, and a good row; never held whole."""

    def __init__(self) -> None:
        self._before = sacct({}).encode()
        self._after = b"\n" + sacct({"JobIDRaw": "2"}).split("\n", 1)[1].encode()
        self._chunks = self._flow()
        self.most_asked = 0

    def _flow(self) -> Iterator[bytes]:
        yield self._before
        yield from (b"5|" * 2**19 for _ in range(1024))
        yield self._after

    def seek(self, offset: int, whence: int = 0) -> int:
        assert offset == 0
        return 0

    def read(self, n: int = -1) -> bytes:
        self.most_asked = max(self.most_asked, n)
        return next(self._chunks, b"")


def test_a_line_of_a_gigabyte_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    most_held = 0
    read_rows = sacct_rows.read_rows

    def watched(data: bytes, *args: Any, **named: Any) -> sacct_rows.Rows:
        nonlocal most_held
        most_held = max(most_held, len(data))
        return read_rows(data, *args, **named)

    monkeypatch.setattr(sacct_module, "read_rows", watched)
    stream = Gigabyte()
    pieces = list(Sacct().parse(cast(BinaryIO, stream), READING))
    assert [job for piece in pieces for job in piece.batch.job.tolist()] == [b"4711", b"2"]
    rejections = [rejection for piece in pieces for rejection in piece.rejections]
    assert [(rejection.line, rejection.code) for rejection in rejections] == [(3, "line_too_long")]
    assert most_held < 8 * 1024**2
    assert stream.most_asked <= 8 * 1024**2


def messy() -> str:
    """Several headers, steps, bars and line ends in names, a requeued job, and a broken row."""
    columns = with_free(("JobName", 2))
    names = ("plain", "a|b", "two\nlines", "a|\n|b\n", "")
    jobs: list[dict[str, str]] = []
    for n, name in enumerate(names * 2, start=1):
        jobs += [{"JobIDRaw": str(n), "JobName": name}, {"JobIDRaw": f"{n}.batch"}, {"JobIDRaw": f"{n}.0"}]
        jobs += [{"JobIDRaw": str(n), "Start": "1767225700", "JobName": name}]
    other = [{"JobIDRaw": str(n), "User": "bo"} for n in range(100, 104)]
    broken = "7|half a row\n"
    return sacct(*jobs, columns=columns) + broken + sacct(*other, columns=tuple(reversed(NEEDED)))


@pytest.mark.parametrize("block_bytes", [1, 97, 400])
def test_reading_resumes_after_any_chunk(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    data = messy().encode()
    (whole,) = (piece for piece in Sacct().parse(io.BytesIO(data), READING))
    assert len(whole.batch) == 10 * 2 + 4
    assert [rejection.code for rejection in whole.rejections] == ["too_few_fields"]
    assert whole.notes["steps_skipped"] == 20
    monkeypatch.setattr(lines, "_READ", block_bytes)
    monkeypatch.setattr(lines, "_BLOCK", block_bytes)
    pieces = list(Sacct().parse(io.BytesIO(data), READING))
    assert len(pieces) > 5
    expected = facts(whole.batch)
    found = [fact for piece in pieces for fact in facts(piece.batch)]
    assert found == expected
    for n, piece in enumerate(pieces):
        rest = list(Sacct().parse(io.BytesIO(data), READING, resume=piece.resume))
        n_before = sum(len(before.batch) for before in pieces[: n + 1])
        assert [fact for after in rest for fact in facts(after.batch)] == expected[n_before:]
        refused = [r for part in (*pieces[: n + 1], *rest) for r in part.rejections]
        assert [(r.line, r.code) for r in refused] == [(r.line, r.code) for r in whole.rejections]
        assert sum(part.n_lines for part in (*pieces[: n + 1], *rest)) == whole.n_lines
