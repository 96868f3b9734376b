"""Plants mistakes one at a time in copies of a tree, runs the tests that could notice, and says which did.

`python -m tests.mutants` takes a seeded sample of generated mutants, `--planted` the list of `planted.py`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.mutants.coverage_map import CoverageMap, load_map
from tests.mutants.generated import PARTS, Mutant, sample
from tests.mutants.planted import PLANTED, Planted
from tests.mutants.report import Verdict, table, written
from tests.mutants.trees import Copy, Outcome, Result

_FIRST_S, _MORE_S = 40.0, 120.0  # of tests, as long as they took when they were mapped
_START_S, _MOST_S = 60.0, 900.0
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
_Mistake = TypeVar("_Mistake")
_Found = TypeVar("_Found")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started ends with it
    tree = options.tree.resolve()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(tree, Path(folder) / str(n)) for n in range(options.workers)]
        return _planted(options, tree, copies) if options.planted else _generated(options, tree, copies)


def _generated(options: argparse.Namespace, tree: Path, copies: list[Copy]) -> int:
    mutants = sample(tree, options.parts, options.size, options.seed)
    _say(f"{len(mutants)} mutants chosen; now which tests execute which lines")
    covered = load_map(tree, copies[0], _CHECKOUT / "var", len(copies), options.tests)
    if not covered.tests:
        raise SystemExit("No test was mapped: none passes.")
    _say(f"{len(covered.tests)} tests mapped")
    check = covered.quickest(covered.tests, _FIRST_S)
    start_s = _START_S
    for copy in copies:  # each makes what a suite keeps between runs, such as the schema, without a mistake in it
        began = time.monotonic()
        found = copy.run(check, "-x", timeout_s=_MOST_S)
        start_s = max(start_s, 2 * (time.monotonic() - began))  # on a busy machine
        if found.outcome is not Outcome.PASSED:
            raise SystemExit(f"Tests fail without any mutant: {found.failed_test}\n{found.output[-2000:]}")

    def judge(copy: Copy, mutant: Mutant) -> Verdict:
        tests = covered.tests_of(mutant.path, *mutant.statement)
        return Verdict(mutant, _first_failure(copy, mutant, covered, tests, start_s), len(tests))

    verdicts = _each(copies, mutants, judge)
    text = f"Seed {options.seed}, {tree}\n\n{table(verdicts)}\n"
    print(text)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + written(verdicts), encoding="utf-8")
    print(f"Survivors, and by what the others were killed: {options.out}")
    return 0


def _first_failure(copy: Copy, mutant: Mutant, covered: CoverageMap, tests: set[str], start_s: float) -> Result:
    """Of the quickest tests that execute the line, and where those pass of as many more as take some minutes."""
    with copy.changed(mutant.path, mutant.after):
        result = Result(Outcome.PASSED)
        for seconds in (_FIRST_S, _MORE_S):
            chosen = covered.quickest(tests, seconds)
            if chosen and result.outcome is Outcome.PASSED:
                result = copy.run(chosen, "-x", timeout_s=start_s + 4 * seconds)
                tests = tests - set(chosen)
    return result


def _planted(options: argparse.Namespace, tree: Path, copies: list[Copy]) -> int:
    chosen = [each for each in PLANTED if not options.tests or each.name in options.tests]
    for planted in chosen:
        planted.text_in(tree)  # all of them before the first is tried: one that no longer fits is an error

    def judge(copy: Copy, planted: Planted) -> Result:
        with copy.changed(planted.path, planted.text_in(copy.root)):
            return copy.run(planted.tests, "-x", timeout_s=_MOST_S)

    results = _each(copies, chosen, judge)
    for planted, result in zip(chosen, results, strict=True):
        print(f"{planted.name:40} {result}")
    return int(any(result.outcome is not Outcome.FAILED for result in results))


def _each(copies: list[Copy], mistakes: Sequence[_Mistake], judge: Callable[[Copy, _Mistake], _Found]) -> list[_Found]:
    """In the order given, as many side by side as there are copies."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    began = time.monotonic()

    def one(place: int) -> _Found:
        copy = free.get()
        try:
            found = judge(copy, mistakes[place])
        finally:
            free.put(copy)
        _say(f"{place + 1}/{len(mistakes)} after {time.monotonic() - began:.0f} s: {found}")
        return found

    threads = ThreadPoolExecutor(len(copies))
    try:
        return list(threads.map(one, range(len(mistakes))))
    finally:  # at once also if it is interrupted
        threads.shutdown(wait=False, cancel_futures=True)
        for copy in copies:
            copy.close()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--planted", action="store_true", help="the chosen mistakes instead of a sample")
    parser.add_argument("--tree", type=Path, default=_CHECKOUT, help="another checkout, to compare with")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--size", type=int, default=int(os.environ.get("MUTANTS", "200")), help="MUTANTS")
    parser.add_argument("--seed", default=os.environ.get("MUTANTS_SEED", "1"), help="MUTANTS_SEED")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("MUTANTS_OUT", _CHECKOUT / "var/mutants.txt")))
    parser.add_argument("tests", nargs="*", help="map only these files and folders; of --planted the names of mistakes")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
