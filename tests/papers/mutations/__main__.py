"""`python -m tests.papers.mutations`: show that the tests of each claim fail when the claim is broken.

Each mutation of `table.py` is made in a copy of the working tree, and the tests that the appendix of the papers lists
for its claim run there. Each mutation has to be caught, and each listed test has to catch one: a test that never fails
shows nothing. Only a failure in the test itself counts, not one of a fixture or an import. `--only` chooses claims.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree

from apps.core.code_paths import REPOSITORY
from docsite.marked_tests import marked_tests
from tests.papers.mutations.mutation import Mutation
from tests.papers.mutations.table import MUTATIONS

_LONGEST_S = 900.0
_TESTS_RAN = (0, 1)  # pytest's exit codes: all passed, some failed


@dataclass(frozen=True, slots=True)
class Outcome:
    """failed: by test the parameters with which its own code failed, and the first line of the reason.

    trouble: why nothing is known.
    """

    failed: Mapping[str, Mapping[str, str]]
    seconds: float
    trouble: str = ""

    def catches(self, test: str, claim: str) -> bool:
        """Whether the test failed; one whose parameters begin with claims, with parameters of this one."""
        parameters = self.failed.get(test, {})
        if any(name.partition("-")[0] in MUTATIONS for name in parameters):
            return any(name.partition("-")[0] == claim for name in parameters)
        return bool(parameters)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.papers.mutations", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", action="append", help="claims, such as 1.12 or '4.*'")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    patterns = options.only or ["*"]
    chosen = {
        claim: mutations
        for claim, mutations in MUTATIONS.items()
        if any(fnmatch(claim, pattern) for pattern in patterns)
    }
    listed = {claim: marked_tests("paper")[claim] for claim in chosen}
    claims_of: dict[Mutation, list[str]] = {}
    for claim, mutations in chosen.items():
        for mutation in mutations:
            claims_of.setdefault(mutation, []).append(claim)
    tests_of = {
        mutation: sorted({test for claim in claims for test in listed[claim]}) for mutation, claims in claims_of.items()
    }
    with _copies(options.processes) as copies:
        problems = _unmutated(copies, sorted({test for tests in listed.values() for test in tests}))
        outcomes = dict(_outcomes(copies, tests_of))
    problems += [line for claim, mutations in chosen.items() for line in _survivors(claim, mutations, listed, outcomes)]
    for line in problems:
        print(line)
    n_caught = sum(
        any(outcomes[mutation].catches(test, claim) for test in listed[claim])
        for claim, mutations in chosen.items()
        for mutation in mutations
    )
    n_mutations = sum(map(len, chosen.values()))
    print(f"{n_caught} of {n_mutations} mutations of {len(chosen)} claims caught; {len(problems)} problems.")
    return 1 if problems else 0


def _survivors(
    claim: str, mutations: Iterable[Mutation], listed: Mapping[str, list[str]], outcomes: Mapping[Mutation, Outcome]
) -> Iterator[str]:
    """A line for each mutation that no test of the claim catches, and for each test that catches none."""
    for mutation in mutations:
        outcome = outcomes[mutation]
        if outcome.trouble:
            yield f"{claim}: {mutation.path}, {mutation.new!r}: {outcome.trouble}"
        elif not any(outcome.catches(test, claim) for test in listed[claim]):
            yield f"{claim}: no test catches {mutation.path}, {mutation.old!r} → {mutation.new!r}"
    for test in listed[claim]:
        if not any(outcomes[mutation].catches(test, claim) for mutation in mutations):
            yield f"{claim}: {test} catches no mutation"


def _outcomes(copies: Sequence[Path], tests_of: Mapping[Mutation, list[str]]) -> Iterator[tuple[Mutation, Outcome]]:
    """Each mutation in a copy of its own at that time, printed as it ends."""
    idle: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        idle.put(copy)

    def try_out(mutation: Mutation) -> Outcome:
        copy = idle.get()
        try:
            with _mutated(copy, mutation):
                return _run(copy, tests_of[mutation])
        finally:
            idle.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        for mutation, outcome in zip(tests_of, pool.map(try_out, tests_of), strict=True):
            print(f"{mutation.path}: {mutation.new.strip()!r} ({outcome.seconds:.0f} s) {outcome.trouble}")
            for test in tests_of[mutation]:
                reason = next(iter(outcome.failed.get(test, {}).values()), "passed")
                print(f"  {test}: {reason}", flush=True)
            yield mutation, outcome


def _unmutated(copies: Sequence[Path], tests: list[str]) -> list[str]:
    """Problems of the tests without any mutation. Each copy has its own bytecode and schemas afterwards."""
    outcome = _run(copies[0], tests)
    return [*([outcome.trouble] if outcome.trouble else []), *(f"{test} fails unmutated" for test in outcome.failed)]


def _run(folder: Path, tests: list[str]) -> Outcome:
    """Run these tests in this copy."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", f"--junitxml={report}"]
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    began = time.monotonic()
    try:
        ended = subprocess.run(
            [*command, *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome({}, time.monotonic() - began, f"not ended after {_LONGEST_S:.0f} s")
    seconds = time.monotonic() - began
    if ended.returncode not in _TESTS_RAN or not report.exists():
        return Outcome({}, seconds, f"pytest ended with {ended.returncode}: {ended.stdout[-400:]}{ended.stderr[-400:]}")
    return Outcome(_failed(report, tests), seconds)


def _failed(report: Path, tests: Iterable[str]) -> dict[str, dict[str, str]]:
    """Tests with a failing example or parameter, from JUnit's report; an error of a fixture is no failure."""
    test_of = {
        (path.removesuffix(".py").replace("/", "."), name): f"{path}::{name}" for path, name in map(_split, tests)
    }
    failed: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - written by our own run
        failure = case.find("failure")
        name, _, parameters = case.get("name", "").partition("[")
        test = test_of.get((case.get("classname", ""), name))
        if failure is not None and test is not None:
            reason = failure.get("message", "").partition("\n")[0][:120]
            failed.setdefault(test, {})[parameters.removesuffix("]")] = reason
    return failed


def _split(test: str) -> tuple[str, str]:
    path, _, name = test.partition("::")
    return path, name


@contextmanager
def _mutated(folder: Path, mutation: Mutation) -> Iterator[None]:
    """The copy with the mutation. Times of change differ, else Python would take the bytecode of the other text."""
    path = folder / mutation.path
    before, changed = path.read_bytes(), path.stat()
    path.write_text(mutation.text(folder), encoding="utf-8")
    later_s = int(time.time()) + 10
    os.utime(path, (later_s, later_s))
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns))


@contextmanager
def _copies(count: int) -> Iterator[list[Path]]:
    """Copies of what git has or would add, removed at the end; packages are those of this interpreter."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="fairshare-mutations-") as parent:
        copies = [Path(parent) / str(number) for number in range(count)]
        for copy in copies:
            for name in filter(None, names):
                if (REPOSITORY / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(REPOSITORY / name, copy / name)
            if (REPOSITORY / ".venv").exists():
                (copy / ".venv").symlink_to((REPOSITORY / ".venv").resolve())
        yield copies


if __name__ == "__main__":
    sys.exit(main())
