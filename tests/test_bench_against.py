"""Two commits measured beside each other: statistics on known numbers, and a planted slow-down that is found."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench import against
from bench.against import LEAST, block_ratio, compared, spread
from bench.report import NOISE, BenchLine, exit_status
from bench.wire_counts import Counts, read_trace

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("n", "low", "high"),  # order statistics of the median's 95 % interval, as in tables of the sign test
    [(2, 1, 2), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (15, 4, 12), (20, 6, 15), (25, 8, 18)],
)
def test_the_spread_is_the_interval_of_the_sign_test(n: int, low: int, high: int) -> None:
    assert spread([float(each) for each in reversed(range(1, n + 1))]) == (low, high)


def test_a_machine_that_slows_down_steadily_makes_no_difference() -> None:
    for slower in (0.0, 0.1, 3.0):
        assert block_ratio(*(5.0 + slower * at for at in range(4))) == 1.0
    assert block_ratio(1.0, 2.0 * 1.1, 2.0 * 1.2, 1.3) == pytest.approx(2.0)


def test_from_nothing_to_something_is_worse_without_end() -> None:
    assert block_ratio(0, 0, 0, 0) == 1.0
    assert block_ratio(0, 1, 1, 0) == math.inf
    assert compared("look-up", "statements", [(0, 1, 1, 0)] * 6).is_worse
    assert not compared("look-up", "statements", [(0, 0, 0, 0)] * 6).is_worse


def test_one_statement_more_is_worse_and_one_fewer_is_better() -> None:
    more = compared("one-record", "statements", [(40, 41, 41, 40)] * 6)
    assert (more.before, more.after, more.ratio, more.low, more.high) == (40, 41, 1.025, 1.025, 1.025)
    assert (more.is_worse, more.is_better) == (True, False)
    fewer = compared("one-record", "statements", [(41, 40, 40, 41)] * 6)
    assert (fewer.is_worse, fewer.is_better) == (False, True)


def test_a_slow_down_within_the_spread_is_none() -> None:
    noisy = [(1.0, 1.3, 1.3, 1.0)] * 5 + [(1.0, 1.02, 1.0, 1.0)]
    found = compared("look-up", "own_s", noisy)
    assert found.ratio == pytest.approx(1.3)
    assert found.low == pytest.approx(1.01)
    assert not found.is_worse
    assert compared("look-up", "own_s", [*noisy[:5], (1.0, 1.1, 1.1, 1.0)]).is_worse
    slightly = compared("look-up", "own_s", [(1.0, 1 + LEAST["own_s"], 1 + LEAST["own_s"], 1.0)] * 6)
    assert not slightly.is_worse


def test_seconds_of_few_blocks_are_not_judged_and_counts_are() -> None:
    assert not compared("look-up", "own_s", [(1.0, 2.0, 2.0, 1.0)] * 5).is_worse
    assert compared("look-up", "own_s", [(1.0, 2.0, 2.0, 1.0)] * 6).is_worse
    assert compared("look-up", "rows", [(1.0, 2.0, 2.0, 1.0)]).is_worse


def test_a_single_block_has_the_spread_of_its_pairs() -> None:
    found = compared("look-up", "instructions", [(100, 103, 104, 101)])
    assert (found.low, found.ratio, found.high) == (103 / 101, 207 / 201, 104 / 100)
    assert found.is_worse
    assert not compared("look-up", "instructions", [(100, 101, 103, 102)]).is_worse


def test_the_table_names_what_is_worse() -> None:
    text = against.table([compared("look-up", "own_s", [(1e-3, 2e-3, 2e-3, 1e-3)] * 6)])
    assert text.splitlines()[1].split() == [
        *("look-up", "own_s", "1.000", "ms", "2.000", "ms", "2.000", "2.000", "–", "2.000", "WORSE")
    ]


def test_a_commit_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert against.compare("no-such-commit", ["engine-100k"]) == 2
    assert "no-such-commit" in capsys.readouterr().err


def test_a_goal_missed_by_more_than_the_noise_is_an_exit_status() -> None:
    within, beyond = BenchLine("a", 1 + NOISE, 1.0), BenchLine("b", 1.01 + NOISE, 1.0)
    assert (within.is_met, within.is_missed, beyond.is_missed) == (False, False, True)
    assert [exit_status(lines) for lines in ([], [within], [within, beyond], [BenchLine("c", 9.0, None)])] == [
        1,
        0,
        1,
        0,
    ]
    assert exit_status([BenchLine("d", math.nan, 1.0)]) == 1


_TRACE = rb"""F	10	Query	 "BEGIN"
B	10	CommandComplete	 "BEGIN"
B	5	ReadyForQuery	 T
F	60	Query	 "SELECT 1,
  2"
B	30	RowDescription	 1 "id"
B	11	DataRow	 1 1 '7'
B	11	DataRow	 1 1 '8'
B	13	CommandComplete	 "SELECT 2"
B	5	ReadyForQuery	 T
F	22	Query	 "COPY t FROM STDIN"
F	800	CopyData	 '1\x0a'
F	4	CopyDone
B	12	CommandComplete	 "COPY 200"
F	30	Parse	 "" "x" 0
F	20	Bind	 "" "" 0 0 0
F	9	Execute	 "" 0
B	15	CommandComplete	 "UPDATE 3"
"""


def test_statements_rows_and_bytes_are_those_of_the_protocol() -> None:
    sizes = (10, 10, 5, 60, 30, 11, 11, 13, 5, 22, 800, 4, 12, 30, 20, 9, 15)
    assert read_trace(_TRACE) == Counts(statements=4, rows=2 + 200 + 3, bytes=sum(sizes) + len(sizes))


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_a_planted_statement_and_loop_are_found(tmp_path: Path) -> None:
    """In a clone whose ingest asks the database once more and works for nothing."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(REPOSITORY), str(clone)], check=True)
    subprocess.run(["cp", "-r", *(str(REPOSITORY / name) for name in ("apps", "bench")), str(clone)], check=True)
    subprocess.run([*_git(clone), "commit", "--quiet", "--all", "--allow-empty", "-m", "as it is"], check=True)
    module = clone / "apps/usage/records/ingest.py"
    text = module.read_text(encoding="utf-8")
    head, name, rest = text.partition("def ingest_batch(")
    assert name
    module.write_text(f"{head}{_PLANTED}{name}{rest}\n\n{_WRAPPED}")
    command = [sys.executable, "-m", "bench", "--against", "HEAD", "--without-instructions", "ingest-10k"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    worse = [line.split()[:2] for line in done.stdout.splitlines() if line.endswith("WORSE")]
    assert done.returncode == 1, done.stderr
    assert ["ingest-10k", "statements"] in worse, done.stdout
    assert ["ingest-10k", "own_s"] in worse, done.stdout


def _git(folder: Path) -> list[str]:
    who = ("user.name=nobody", "user.email=nobody@example.org")
    return ["git", "-C", str(folder), *(part for each in who for part in ("-c", each))]


_PLANTED = "import functools\n\n"
_WRAPPED = """
def _slowed(ingest):
    @functools.wraps(ingest)
    def slow(*arguments, **named):
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        sum(range(5_000_000))
        return ingest(*arguments, **named)

    return slow


ingest_batch = _slowed(ingest_batch)
"""
