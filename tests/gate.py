"""`make test`: run pytest, try a few failures once more, alone, and judge.

    python -m tests.gate [options and paths of pytest]

Failures are tried again in one process if pytest ended with exit status 1, all that was collected was run, no worker
crashed, and at most MOST_TRIED_AGAIN failed. Those that pass then are printed as UNSTABLE, and the run passes.
Tests of `tests/unsteady.toml` are printed as UNSTEADY with their outcome, and don't decide.

Exit status: 0, that of pytest, or 2 for a line of `tests/unsteady.toml` that is over its bounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

MOST_TRIED_AGAIN = 5
MOST_UNSTEADY = 8
LONGEST_UNSTEADY = timedelta(days=14)
UNSTEADY = Path(__file__).with_name("unsteady.toml")
_TESTS_FAILED = 1  # pytest's exit status


class BadList(Exception):
    """`tests/unsteady.toml` has too many tests, or one for too long."""


@dataclass(frozen=True, slots=True)
class UnsteadyTest:
    """A test that fails now and then: what was seen, the first and the last day on which it doesn't decide."""

    name: str
    seen: str
    since: date
    until: date


def read_unsteady(path: Path, today: date) -> list[UnsteadyTest]:
    """The tests that don't decide. Raises BadList."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("test", [])
    try:
        tests = [UnsteadyTest(**row) for row in rows]
    except TypeError as error:
        raise BadList(f"{path}: each test has name, seen, since and until ({error}).") from error
    if len(tests) > MOST_UNSTEADY:
        raise BadList(f"{path} names {len(tests)} tests, {MOST_UNSTEADY} at most: mend one, or delete it.")
    for test in tests:
        if not test.seen:
            raise BadList(f"{path}: {test.name} doesn't say what was seen.")
        if test.until > test.since + LONGEST_UNSTEADY:
            raise BadList(f"{path}: {test.name} may not be unsteady for over {LONGEST_UNSTEADY.days} days.")
        if not test.since <= today <= test.until:
            raise BadList(f"{path}: {test.name} is unsteady from {test.since} to {test.until}, and today is {today}.")
    return tests


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a run of pytest: its exit status, and names of tests. Without a file it was aborted, and has none."""

    status: int
    failed: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()


def run_pytest(options: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "outcome.json")
        status = subprocess.run([sys.executable, "-m", "pytest", *options, f"--outcome={written}"]).returncode
        try:
            lists = json.loads(written.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return Outcome(status or 1)
    return Outcome(status, **{name: frozenset(names) for name, names in lists.items()})


def judge(options: Sequence[str], unsteady: Sequence[UnsteadyTest]) -> int:
    """Exit status of the run with its second try; prints what was unstable as its last lines."""
    names = {test.name for test in unsteady}
    first = run_pytest(options)
    named, deciding = sorted(first.failed & names), sorted(first.failed - names)
    status, unstable = first.status, list[str]()
    if first.status == _TESTS_FAILED and first.failed and not first.missing and len(deciding) <= MOST_TRIED_AGAIN:
        status = 0
        if deciding:
            print(f"\nTrying {len(deciding)} once more, alone:", *deciding, sep="\n  ", flush=True)
            alone = ["-n0", "--last-failed", "--last-failed-no-failures=none"]
            again = run_pytest([*options, *alone, *(f"--deselect={name}" for name in names)])
            if again.status == 0 and again.passed >= set(deciding):
                unstable = deciding
            else:
                status = again.status or _TESTS_FAILED
    for test in unsteady:
        says = "failed" if test.name in named else "passed" if test.name in first.passed else "not run"
        print(f"UNSTEADY {test.name}: {says} ({test.seen}; until {test.until})")
    for name in unstable:
        print(f"UNSTABLE {name}")
    return status


def main(options: Sequence[str]) -> int:
    try:
        unsteady = read_unsteady(UNSTEADY, datetime.now(UTC).date())
    except BadList as refusal:
        print(refusal, file=sys.stderr)
        return 2
    return judge(options, unsteady)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
