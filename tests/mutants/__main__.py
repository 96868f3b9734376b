"""`python -m tests.mutants`: change the code in one place at a time, and see whether a test notices.

The table has a row for each room. Its score is the share of noticed mutants among those tried, without those of
`accepted.toml`. `--rooms engine,ingest` chooses rooms, `--sample 50` so many mutants of each, `--minutes 10` ends
after so long, `--seed 7` chooses others. Outcomes are remembered in .pytest_cache: the same command goes on where it
stopped. `--table` prints what is known and tries nothing.

`--claims '4.*,F1'` takes claims of the papers instead: the functions of `claims.toml` are changed until each test that
is marked with the claim has noticed a mutant. A test that notices none shows nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from apps.core.code_paths import REPOSITORY
from tests.mutants.accepted import accepted
from tests.mutants.changes import Mutant, in_order
from tests.mutants.claims import Claim, claims_of_papers
from tests.mutants.outcomes import ERROR, NOT_APPLIED, NOTICED, SURVIVED, Outcomes
from tests.mutants.rooms import ROOMS, Room


class Row(NamedTuple):
    """tried: without those that couldn't be applied. survived: without the accepted ones."""

    room: str
    n_mutants: int
    tried: int
    noticed: int
    accepted: int
    survived: int

    @property
    def percent(self) -> float | None:
        counted = self.noticed + self.survived
        return 100 * self.noticed / counted if counted else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--rooms", default=",".join(ROOMS), type=lambda text: text.split(","))
    parser.add_argument("--claims", nargs="?", const="*", metavar="A,B*", help="claims of the papers; alone: all")
    parser.add_argument("--sample", type=int, help="mutants of each room or claim, at most")
    parser.add_argument("--minutes", type=float, help="for all rooms or claims together")
    parser.add_argument("--patience", type=float, help="seconds of tests for one mutant, at most; without: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="A|B", help="those whose file, function or line contains one")
    parser.add_argument("--again", action="store_true", help="also those that are known to survive")
    parser.add_argument("--table", action="store_true", help="print what is known")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.rooms) - set(ROOMS)):
        parser.error(f"no such rooms: {', '.join(unknown)}; there are {', '.join(ROOMS)}")
    if options.claims is not None:
        patterns = options.claims.split(",")
        chosen = [claim for claim in claims_of_papers().values() if any(fnmatch(claim.name, each) for each in patterns)]
        if not chosen:
            parser.error(f"no such claims: {options.claims}")
        return _main_of_claims(chosen, options)
    share = 1 / len(options.rooms)
    statuses = [] if options.table else [_try_out([ROOMS[room]], options, share) for room in options.rooms]
    rows = [_print_survivors(ROOMS[room]) for room in options.rooms]
    _print_table(rows)
    is_short = any(row.percent is not None and row.percent < ROOMS[row.room].goal for row in rows)
    return 1 if is_short or set(statuses) - {0, 5} else 0  # pytest: all passed, or none to run


def _main_of_claims(chosen: Sequence[Claim], options: argparse.Namespace) -> int:
    """Claims that numba compiles code of have a process of their own, in which it compiles nothing."""
    ordered = random.Random(options.seed).sample(chosen, len(chosen))
    statuses = []
    for is_compiled in () if options.table else (False, True):
        if some := [claim for claim in ordered if claim.is_compiled == is_compiled]:
            off = {"NUMBA_DISABLE_JIT": "1"} if is_compiled else {}
            statuses.append(_try_out(some, options, len(some) / len(chosen), off))
    lines, n_findings = list[str](), 0
    for claim in chosen:
        mutants = claim.mutants()
        outcomes = Outcomes.read(claim, {mutant.name for mutant in mutants})
        findings = list(_findings(mutants, outcomes, options))
        n_findings += len(findings)
        for line in findings:
            print(line)
        verdicts = [outcome.verdict for outcome in outcomes.by_name.values()]
        counts = f"{len(mutants):9}{len(verdicts):7}{verdicts.count(NOTICED):9}"
        lines.append(f"{claim.name:7}{counts}{len(claim.tests):7}{len(outcomes.silent()):8}")
    print(f"{'claim':7}{'mutants':>9}{'tried':>7}{'noticed':>9}{'tests':>7}{'silent':>8}")
    print("\n".join(lines))
    return 1 if n_findings or set(statuses) - {0, 5} else 0


def _findings(mutants: Sequence[Mutant], outcomes: Outcomes, options: argparse.Namespace) -> Iterator[str]:
    """A line for each mutant that fails to run, for a claim without a noticed mutant, and for each test that notices
    none. A claim is judged after all mutants of its sample."""
    for name, outcome in sorted(outcomes.by_name.items()):
        if outcome.verdict == ERROR:
            yield f"error: {name} [{outcome.note}]"
    sample = in_order(mutants, options.seed, options.only)[: options.sample]
    if not all(map(outcomes.knows, sample)):
        return
    tried = f"survived: each mutant of claim {outcomes.room.name} ({len(outcomes.by_name)})"
    if not outcomes.noticing():
        yield f"{tried}: no test notices one"
    for test in outcomes.silent():
        yield f"{tried}: {test} shows nothing"


def _try_out(
    rooms: Sequence[Room], options: argparse.Namespace, share: float, environment: Mapping[str, str] | None = None
) -> int:
    """In a process of its own, which collects their tests once. share: of the minutes."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "tests.mutants.plugin"]
    command += [f"--mutants={','.join(room.name for room in rooms)}", f"--mutant-only={options.only}"]
    command += [f"--mutant-seed={options.seed}", *(["--deep"] if rooms[0].is_claim else [])]
    if options.sample is not None:
        command.append(f"--mutant-sample={options.sample}")
    if options.again:
        command.append("--mutants-again")
    if options.patience is not None:
        command.append(f"--mutant-patience={options.patience}")
    if options.minutes is not None:
        command.append(f"--mutant-seconds={60 * options.minutes * share}")
    tests = sorted({test for room in rooms for test in room.tests})
    changed = {**os.environ, **(environment or {})}
    return subprocess.run([*command, *tests], cwd=REPOSITORY, env=changed, check=False).returncode


def _print_survivors(room: Room) -> Row:
    names = {mutant.name for mutant in room.mutants()}
    outcomes = Outcomes.read(room, names).by_name
    counts = dict.fromkeys((NOTICED, SURVIVED, NOT_APPLIED, ERROR), 0)
    n_accepted = 0
    for name, outcome in sorted(outcomes.items()):
        if outcome.verdict == SURVIVED and name in accepted():
            n_accepted += 1
            continue
        counts[outcome.verdict] += 1
        if outcome.verdict != NOTICED:
            path, _, rest = name.partition("::")
            print(f"{outcome.verdict}: {path}:{outcome.line} {rest} [{outcome.note}]")
    tried = counts[NOTICED] + counts[SURVIVED] + n_accepted
    return Row(room.name, len(names), tried, counts[NOTICED], n_accepted, counts[SURVIVED] + counts[ERROR])


def _print_table(rows: Sequence[Row]) -> None:
    print(f"{'room':10}{'mutants':>9}{'tried':>7}{'noticed':>9}{'accepted':>10}{'survived':>10}{'score':>9}{'goal':>7}")
    for row in rows:
        score = "-" if row.percent is None else f"{row.percent:.1f} %"
        counts = f"{row.n_mutants:9}{row.tried:7}{row.noticed:9}{row.accepted:10}{row.survived:10}"
        print(f"{row.room:10}{counts}{score:>9}{ROOMS[row.room].goal:5} %")


if __name__ == "__main__":
    sys.exit(main())
