from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import BinaryIO

import numpy as np
import pytest

from apps.core.errors import Invalid
from apps.engine import fast
from apps.usage.parsers import swf
from apps.usage.parsers.base import Parsed, Reading, RecordBatch, Rejection, instant
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.registry import format_of
from apps.usage.parsers.swf import Swf

START = 1_132_444_805
HEADER = f"; Version: 2.2\n; UnixStartTime: {START}\n; Partition: 1 grid.example\n"

READING = Reading(at=datetime(2026, 6, 1, tzinfo=UTC))


def job(number: float, **given: float) -> str:
    fields = [number, 10, 5, 100, 4, -1, -1, 8, 3600, -1, 1, 7, 3, -1, 2, 40, -1, -1]
    places = {"submit": 1, "wait": 2, "run": 3, "cpus": 4, "requested": 7, "status": 10, "user": 11, "group": 12}
    for name, value in given.items():
        fields[places[name]] = value
    return " ".join(str(value) for value in fields) + "\n"


def parse(text: str | bytes) -> tuple[list[Parsed], list[Rejection]]:
    pieces = list(Swf().parse(io.BytesIO(text.encode() if isinstance(text, str) else text), READING))
    return pieces, [rejection for piece in pieces for rejection in piece.rejections]


def only(text: str) -> RecordBatch:
    pieces, rejections = parse(text)
    assert rejections == []
    assert len(pieces) == 1
    return pieces[0].batch


def test_a_job_starts_after_its_wait_and_is_identified_by_its_numbers() -> None:
    batch = only(HEADER + job(1))
    assert instant(int(batch.submit_us[0])) == datetime.fromtimestamp(START + 10, UTC)
    assert instant(int(batch.start_us[0])) == datetime.fromtimestamp(START + 15, UTC)
    assert instant(int(batch.end_us[0])) == datetime.fromtimestamp(START + 115, UTC)
    assert (batch.people[batch.who[0]].user, batch.people[batch.who[0]].group) == ("7", "3")
    assert (batch.job[0], batch.site[0], batch.job_classes[batch.job_class[0]].queue) == (b"1", b"40", "2")
    assert (batch.cpus[0], batch.requested_s[0], batch.line[0]) == (4, 3600, 4)


def test_unknown_wait_and_negative_run_times_are_zero_and_noted() -> None:
    pieces, _ = parse(HEADER + job(1, wait=-1, run=-1) + job(2))
    batch = pieces[0].batch
    assert batch.start_us[0] == batch.end_us[0] == batch.submit_us[0]
    assert pieces[0].notes == {"wait_unknown": 1, "run_negative": 1}


def test_requested_processors_replace_unknown_allocated_ones() -> None:
    assert only(HEADER + job(1, cpus=-1, requested=8) + job(2, cpus=-1, requested=-1)).cpus.tolist() == [8, 0]


def test_floats_and_blanks_are_read() -> None:
    batch = only(HEADER + "  1\t0.5  -1 552.21 30 1.5 -1 30 37980 -1 1 1 1 -1 -1 1 -1 -1  \n")
    assert (batch.end_us[0] - batch.start_us[0]) == 552_210_000


def test_a_job_without_user_and_group_still_counts() -> None:
    batch = only(HEADER + job(1, user=-1, group=-1) + job(2, user=-1))
    assert [batch.people[code] for code in batch.who] == [("unknown", "", "", "", ""), ("", "3", "", "", "")]


@pytest.mark.parametrize("slow", [False, True])
def test_bursts_are_not_counted_in_addition_to_their_job(slow: bool) -> None:
    text = HEADER + job(1, run=100) + job(1, run=60, status=2) + job(1, submit=-1, run=40, status=3) + job(2)
    pieces, rejections = parse(text + ("; a late comment\n" if slow else ""))
    assert rejections == []
    assert pieces[0].batch.job.tolist() == [b"1", b"2"]
    assert pieces[0].notes["bursts_skipped"] == 2


def test_bursts_without_their_job_are_counted() -> None:
    batch = only(HEADER + job(1, run=60, status=2) + job(1, submit=-1, wait=20, run=40, status=3))
    assert batch.restart.tolist() == [1, 2]
    assert (batch.start_us[1] - batch.end_us[0]) == 20_000_000
    assert (batch.end_us - batch.start_us).sum() == 100_000_000


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("1 2 3\n", "too_few_fields"),
        (job(1).replace("100", "abc"), "not_a_number"),
        (job(1).replace("100", "nan"), "not_a_number"),
        (job(1).replace("100", "1_0"), "not_a_number"),
        (job(1).replace("100", "0x10"), "not_a_number"),
        (job(-1), "bad_job"),
        (job(1.5), "bad_job"),
        (job(1, cpus=1e300), "absurd_processors"),
        (job(1, run=1e15), "absurd_run_time"),
        (job(1, submit=1e17), "absurd_time"),
        (job(1, submit=-1), "no_submit"),
        (job(1, user=1e200), "absurd_number"),
        (job(1).replace("100", "1e9999"), "absurd_run_time"),
    ],
)
def test_an_invalid_line_is_reported_and_its_neighbours_are_accepted(line: str, code: str) -> None:
    pieces, rejections = parse(HEADER + job(10) + line + job(11))
    assert [(one.line, one.code) for one in rejections] == [(5, code)]
    assert rejections[0].excerpt
    assert pieces[0].batch.job.tolist() == [b"10", b"11"]


def test_bytes_that_are_not_text_are_reported() -> None:
    pieces, rejections = parse(HEADER.encode() + job(1).encode() + b"\xff\xfe junk\n" + job(2).encode())
    assert [(one.line, one.code) for one in rejections] == [(5, "not_utf8")]
    assert len(pieces[0].batch) == 2


def test_fast_and_careful_parsing_agree() -> None:
    lines = [job(n, run=n * 3.25, cpus=1 + n % 5, user=n % 3) for n in range(500)]
    quick = only(HEADER + "".join(lines))
    careful = only(HEADER + "".join(lines[:250]) + "; in the middle\n" + "".join(lines[250:]))
    for name in ("job", "start_us", "end_us", "cpus", "requested_s", "site"):
        assert np.array_equal(getattr(quick, name), getattr(careful, name)), name
    assert quick.line.tolist()[-1] == careful.line.tolist()[-1] - 1


ODD = (
    *(b"", b"\n", b"\r", b"\r\n", b"\r\r\n", b"\t", b" ", b"\x0b", b"\x1c", b"\x00", b"\xff", b"\xc3\xa9"),
    *(
        b";",
        b'"',
        b"'",
        b"#",
        b"|",
        b",",
        b"-",
        b"+",
        b".",
        b"1.",
        b".5",
        b"-.5",
        b"+7",
        b"--1",
        b"1-",
        b"-0",
        b"00012",
    ),
    *(b"1e5", b"1e", b"1e9999", b"0x1", b"1_0", b"nan", b"inf", b"2.2250738585072014e-308", b" " * MOST_LINE_BYTES),
    *(b"9007199254740993", b"123456789012345678", b"1234567890123456789", b"9" * 400),
    *(b"0.1", b"0.30000000000000004", b"1132444805.123456"),
)


def mutated(rng: np.random.Generator) -> bytes:
    """Some plain lines, of which most have an oddity or two somewhere, and line ends of either kind."""
    line_end = (b"\n", b"\r\n")[rng.integers(0, 2)]
    lines = [
        job(int(number), run=round(float(rng.exponential(1e5)), int(rng.integers(0, 6)))) for number in range(1, 4)
    ]
    data = line_end.join(line.strip().encode() + b" 19" * int(rng.integers(0, 5) == 0) for line in lines)
    for _ in range(rng.integers(0, 3)):
        at = int(rng.integers(0, len(data) + 1))
        data = data[:at] + ODD[rng.integers(0, len(ODD))] + data[at + int(rng.integers(0, 4)) :]
    return data + line_end * int(rng.integers(0, 2))


def test_machine_code_reads_what_numpy_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 mutated lines in 3,334 blocks, bit by bit; without numba the kernel runs as Python."""
    monkeypatch.setattr(swf, "FEWEST_FOR_MACHINE_CODE", 1)
    monkeypatch.setattr(fast, "_is_on", True)
    rng = np.random.default_rng(75)
    n_read = 0
    for _ in range(3_334):
        data = mutated(rng)
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        by_machine_code, by_numpy = swf._read_plain_lines(data, n_lines), swf._read_numbers(data, n_lines)
        if by_machine_code is None:
            continue
        assert by_numpy is not None, data
        assert (by_machine_code[0].tobytes("C"), by_machine_code[1]) == (by_numpy[0].tobytes("C"), by_numpy[1]), data
        n_read += 1
    assert 1_000 < n_read < 3_000


def test_job_numbers_are_written_as_any_whole_number() -> None:
    rng = np.random.default_rng(75)
    for most in (1, 9, 10, 11, 100, 10**6, 2**53 + 1):
        numbers = np.append(rng.integers(0, most, 200), most - 1)
        assert swf._decimals(numbers).tolist() == numbers.astype(np.bytes_).tolist()
    assert len(swf._decimals(numbers[:0])) == 0


def test_a_header_without_an_instant_is_refused_when_times_are_relative() -> None:
    with pytest.raises(Invalid, match="UnixStartTime") as caught:
        parse("; Version: 2.2\n" + job(1))
    assert caught.value.code == "no_start_time"


@pytest.mark.parametrize("value", ["soon", "-5", "1e300", ""])
def test_an_implausible_start_of_the_log_is_rejected(value: str) -> None:
    with pytest.raises(Invalid, match="UnixStartTime"):
        parse(f"; UnixStartTime: {value}\n" + job(1))


def test_a_dialect_with_more_fields_and_absolute_times_is_read() -> None:
    text = "0 1356996147 0 56011 64 1 1024 64 86400 68719476736 1 62 1 1 -1 1 1 1 {1,2} q_1d 1:ppn=64#excl\n"
    batch = only(text)
    assert instant(int(batch.submit_us[0])) == datetime(2012, 12, 31, 23, 22, 27, tzinfo=UTC)
    assert batch.mem_mb[0] == 65536
    pieces, rejections = parse("0 broken\n" + text)  # after a broken line each line is parsed alone
    assert [rejection.line for rejection in rejections] == [1]
    assert pieces[0].batch.mem_mb[0] == 65536


class Endless(io.RawIOBase):
    """A header, a line of a gigabyte that is never held, and a job behind it."""

    def __init__(self, n_bytes: int) -> None:
        self.left = n_bytes
        self.before = io.BytesIO(HEADER.encode() + job(1).encode())
        self.after = io.BytesIO(b"\n" + job(2).encode())
        self.largest_read = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        return offset

    def read(self, n: int = -1) -> bytes:
        self.largest_read = max(self.largest_read, n)
        data = self.before.read(n)
        if data:
            return data
        if self.left:
            taken = min(n, self.left)
            self.left -= taken
            return b"7" * taken
        return self.after.read(n)


def test_a_line_of_a_gigabyte_is_skipped_and_reported() -> None:
    stream = Endless(2**30)
    pieces = list(Swf().parse(stream, READING))  # type: ignore[arg-type]
    rejections = [rejection for piece in pieces for rejection in piece.rejections]
    assert [(one.line, one.code) for one in rejections] == [(5, "line_too_long")]
    assert [name for piece in pieces for name in piece.batch.job.tolist()] == [b"1", b"2"]
    assert stream.largest_read <= 4 * 1024**2


def test_an_overlong_line_is_rejected_at_any_block_boundary() -> None:
    padded = job(1).rstrip() + " " * MOST_LINE_BYTES + "\n"
    _, rejections = parse(HEADER + padded + job(2))
    assert [(one.line, one.code) for one in rejections] == [(4, "line_too_long")]


@pytest.mark.usefixtures("small_pieces")
def test_reading_resumes_after_any_chunk() -> None:
    text = HEADER + "".join(job(n) for n in range(2_000)) + "1 2\n" + "".join(job(n) for n in range(2_000, 3_000))
    stream: BinaryIO = io.BytesIO(text.encode())
    pieces = list(Swf().parse(stream, READING))
    assert len(pieces) > 1
    rest = list(Swf().parse(io.BytesIO(text.encode()), READING, resume=pieces[0].resume))
    assert [piece.batch.line.tolist() for piece in rest] == [piece.batch.line.tolist() for piece in pieces[1:]]
    assert [piece.rejections for piece in rest] == [piece.rejections for piece in pieces[1:]]
    assert pieces[-1].offset == len(text)


def test_formats_are_recognised_by_their_beginning() -> None:
    assert format_of("auto", HEADER.encode()).name == "swf"
    assert format_of("auto", job(1).encode()).name == "swf"
    for head in (b"", b"\x00\x01", b"a|b\n1|a\n", b"{}"):
        with pytest.raises(Invalid, match="recognised"):
            format_of("auto", head)
    with pytest.raises(Invalid, match="no format"):
        format_of("cobol", b"")


@pytest.mark.parametrize("field", [5, 8, 13, 16, 17])
@pytest.mark.parametrize("text", ["?", "nan", "1e999"])
def test_fields_that_usage_doesnt_need_refuse_no_line(field: int, text: str) -> None:
    fields = job(1).split()
    fields[field] = text
    whole, found = only(HEADER + job(1) + job(2)), only(HEADER + " ".join(fields) + "\n" + job(2))
    assert found.job.tolist() == whole.job.tolist()
    assert (found.end_us - found.start_us).tolist() == (whole.end_us - whole.start_us).tolist()
    assert found.cpus.tolist() == whole.cpus.tolist()
