"""Random lines: every format accepts them or refuses them with a reason, quickly, and never breaks.

FUZZ_LINES says how many for each format: 300 beside all other tests, 10,000 in `make test-faults`.
"""

from __future__ import annotations

import io
import os
import random
import re
import time
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import DomainError
from apps.runs.services import work_run_now
from apps.usage.models import Import, Source
from apps.usage.parsers.base import FINISHED, FIRST_US, LAST_US, MOST_JOB_S, NO_TIME, Collector, Parsed, Reading
from apps.usage.parsers.registry import FORMATS
from apps.usage.services import NewImport, start_import
from tests.instants import AT

READING = Reading(AT, ZoneInfo("Europe/Stockholm"))
N_LINES = int(os.environ.get("FUZZ_LINES", "300"))
MOST_S = 1.0
NAMES = sorted(FORMATS)

_TOKEN = re.compile(rb"[A-Za-z0-9_.\-]+")
_NASTY_TEXTS = (
    *("", "-1", "0", "NaN", "nan", "inf", "-Infinity", "1e999", "-1e999", "1e308", "1_000", "0x10", "1" * 400, "1.5"),
    *("9" * 19, "-9223372036854775808", "18446744073709551616", "4294967296", ".", "-", "+", "e", "\u0661", "../../x"),
    *("9999-12-31T23:59:59", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00", "2026-03-29T02:30:00", "253402300799"),
    *("2026-10-25T02:30:00", "2024-02-29T00:00:00", "Unknown", "None", "null", "true", "INVALID", "(null)"),
    *("99-99:99:99", "-01:00:00", "UNLIMITED", "P1Y", "PT-5S", "1-0", "[0-999999999]", "4_[1-3,5%2]", "12+1"),
    *("\0", "\x1b[31m", "\u202e", "\u2028", "\ud800", "\ufeff", "'", '"', "\\", "|", ":", ";", ",", "=", "%%", "#"),
    *("<", "&", "&amp;", "&x;", "]]>", "<![CDATA[", "<!--", "<?x?>", "<a>", "</a>", "{", "}", "[", "]", "{}", "[1]"),
    *('<!DOCTYPE a [<!ENTITY b "c">]>', "[" * 3000, '{"a":' * 1500, "<a>" * 200, "x" * 1500, "x" * 70_000),
    *("(n1:ncpus=", "cpu=1,gres/gpu=2,mem=4000M,node=1", "n1/0*99999999999", "1-999999999:1", "a=b c=d", "\r\n"),
)
_NASTY = (
    *(text.encode("utf-8", "surrogatepass") for text in _NASTY_TEXTS),
    *(b"\xff\xfe", b"\xc3", b"\r", b"\n", bytes(range(256))),
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The line with one to three errors."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(rng, data)
    return data


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return rng.choice(_NASTY)
    token = rng.choice(tokens)
    return data[: token.start()] + rng.choice(_NASTY) + data[token.end() :]


def _swap_tokens(rng: random.Random, data: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if len(tokens) < 2:
        return data
    one, two = sorted(rng.sample(tokens, 2), key=lambda token: token.start())
    return data[: one.start()] + two[0] + data[one.end() : two.start()] + one[0] + data[two.end() :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_NASTY) + data[at:]


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * rng.choice((1, 2, 20)) + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


_MUTATIONS = (_replace_token, _replace_token, _replace_token, _swap_tokens, _insert, _flip, _cut, _repeat, _truncate)


def mutants(name: str, n: int) -> list[bytes]:
    """The format's sample with one of its records, or its head, changed; the same ones in every run."""
    rng = random.Random(f"{name} 2026")
    lines = FORMATS[name].sample.encode().splitlines(keepends=True)
    made = []
    for _ in range(n):
        at = rng.randrange(len(lines)) if rng.random() < 0.2 else len(lines) - 1 - rng.randrange(min(len(lines), 12))
        changed = mutated(rng, lines[at].rstrip(b"\n"))
        made.append(b"".join([*lines[:at], changed + b"\n", *lines[at + 1 :]]))
    return made


def read(collector: Collector, data: bytes) -> list[Parsed] | DomainError:
    try:
        return list(collector.parse(io.BytesIO(data), READING))
    except DomainError as refusal:
        return refusal


def assert_sound(pieces: list[Parsed]) -> None:
    """Every refusal has its place and reason; every record could be stored and counted."""
    for piece in pieces:
        for rejection in piece.rejections:
            assert rejection.line >= 1
            assert re.fullmatch(r"[a-z][a-z0-9_]{1,63}", rejection.code)
            assert len(rejection.message) > 10
            assert "\n" not in rejection.excerpt
            assert not re.search("[\x00-\x08\ud800-\udfff]", rejection.message + rejection.excerpt)
        batch = piece.batch
        for amounts in (batch.cpus, batch.gpus, batch.nodes, batch.mem_mb, batch.billing):
            assert np.isfinite(amounts).all()
            assert (amounts >= 0).all()
            assert (amounts <= 1e12).all()
        for instants in (batch.submit_us, batch.start_us, batch.end_us):
            found = instants[instants != NO_TIME]
            assert ((found >= FIRST_US) & (found <= LAST_US)).all()
        over = batch.state == FINISHED
        assert (batch.start_us[over] != NO_TIME).all()
        assert (batch.end_us[over] >= batch.start_us[over]).all()
        assert (batch.end_us[over] - batch.start_us[over] <= MOST_JOB_S * 10**6).all()
        assert (batch.submit_us != NO_TIME).all()
        assert ((batch.restart >= 0) & (batch.revision >= 0)).all()
        for texts in (batch.job, batch.array_task, batch.cluster, batch.site):
            assert all(b"\0" not in text and text.decode() is not None for text in texts.tolist())
        assert all(any(batch.people[who]) for who in set(batch.who.tolist()))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.fault("F29")
def test_a_mutated_record_is_accepted_or_rejected_with_a_reason_within_a_second(name: str) -> None:
    collector = FORMATS[name]
    n_refused = n_taken = 0
    for number, data in enumerate(mutants(name, N_LINES)):
        started = time.process_time()  # a busy machine is no finding
        found = read(collector, data)
        took_s = time.process_time() - started
        assert took_s < MOST_S, f"mutant {number} of {name} took {took_s:.1f} s: {data[:500]!r}"
        if isinstance(found, DomainError):
            assert len(str(found)) > 10, f"mutant {number} of {name} is refused without a reason"
            assert found.code
            n_refused += 1
            continue
        try:
            assert_sound(found)
        except AssertionError as error:
            raise AssertionError(f"mutant {number} of {name}: {data[:2000]!r}") from error
        n_refused += any(piece.rejections for piece in found)
        n_taken += any(len(piece.batch) for piece in found)
    assert n_refused > N_LINES / 20, "the mutations hardly hurt: they test nothing"
    assert n_taken > N_LINES / 20


@pytest.mark.parametrize("name", ["gridengine", "gridengine-jsonl", "ndjson", "swf"])
def test_no_line_is_lost_silently(name: str) -> None:
    """Of formats with one record a line: accepted, refused, or counted among the notes."""
    rng = random.Random(7)
    line = FORMATS[name].sample.encode().splitlines()[-1]
    head = b"; UnixStartTime: 1767225600\n" if name == "swf" else b""
    changed = [mutated(rng, line).replace(b"\r", b"") for _ in range(N_LINES)]
    lines = [one for each in changed for one in each.split(b"\n") if one.strip() and not one.startswith((b"#", b";"))]
    found = read(FORMATS[name], head + line + b"\n" + b"\n".join(lines) + b"\n")
    assert not isinstance(found, DomainError)
    skipped = sum(n for piece in found for note, n in piece.notes.items() if note.endswith("_skipped"))
    taken = sum(len(piece.batch) + len(piece.rejections) for piece in found)
    assert taken + skipped == len(lines) + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F29")
def test_an_import_of_mutated_lines_succeeds_or_reports_a_reason(name: str, source: Source) -> None:
    """Through the database: nothing that a parser lets pass may break there."""
    pieces = mutants(name, 60)
    documents = [data for data in pieces if not isinstance(read(FORMATS[name], data), DomainError)]
    is_document = name in ("gridengine-queue", "ogf-ur", "sacct-json", "squeue-json")
    for data in documents[:12] if is_document else [b"".join(documents)]:
        if not data.strip():
            continue
        made = start_import(
            NewImport(source_slug="cluster", format=name, file=io.BytesIO(data), file_name="x", time_zone="UTC"),
            at=AT,
            actor=COMMAND,
        )
        run = work_run_now(made.run_id)
        if run.state != "succeeded":
            assert run.error_code not in ("", "failed"), run.error
            assert run.error
        done = Import.objects.get(pk=made.pk)
        assert done.rejected_lines.filter(message="").count() == 0
