"""`python -m tests.mutants`: change the code in one place at a time, and see whether a test notices.

The table has a row for each room. Its score is the share of noticed mutants among those tried, without those of
`accepted.toml`. `--rooms engine,ingest` chooses rooms, `--sample 50` so many mutants of each, `--minutes 10` ends
after so long, `--seed 7` chooses others. Outcomes are remembered in .pytest_cache: the same command goes on where it
stopped. `--table` prints what is known and tries nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from apps.core.code_paths import REPOSITORY
from tests.mutants.accepted import accepted
from tests.mutants.changes import mutants_of
from tests.mutants.outcomes import ERROR, NOT_APPLIED, NOTICED, SURVIVED, Outcomes
from tests.mutants.rooms import ROOMS, outcomes_file


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
    parser.add_argument("--sample", type=int, help="mutants of each room, at most")
    parser.add_argument("--minutes", type=float, help="for all rooms together")
    parser.add_argument("--patience", type=float, help="seconds of tests for one mutant, at most; without: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="A|B", help="those whose file, function or line contains one")
    parser.add_argument("--again", action="store_true", help="also those that are known to survive")
    parser.add_argument("--table", action="store_true", help="print what is known")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.rooms) - set(ROOMS)):
        parser.error(f"no such rooms: {', '.join(unknown)}; there are {', '.join(ROOMS)}")
    statuses = [] if options.table else [_try_out(room, options) for room in options.rooms]
    rows = [_print_survivors(room) for room in options.rooms]
    _print_table(rows)
    is_short = any(row.percent is not None and row.percent < ROOMS[row.room].goal for row in rows)
    return 1 if is_short or set(statuses) - {0, 5} else 0  # pytest: all passed, or none to run


def _try_out(room: str, options: argparse.Namespace) -> int:
    """In a process of its own, which collects the room's tests once."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "tests.mutants.plugin"]
    command += [f"--mutants={room}", f"--mutant-seed={options.seed}", f"--mutant-only={options.only}"]
    if options.sample is not None:
        command.append(f"--mutant-sample={options.sample}")
    if options.again:
        command.append("--mutants-again")
    if options.patience is not None:
        command.append(f"--mutant-patience={options.patience}")
    if options.minutes is not None:
        command.append(f"--mutant-seconds={60 * options.minutes / len(options.rooms)}")
    return subprocess.run([*command, *ROOMS[room].tests], cwd=REPOSITORY, check=False).returncode


def _print_survivors(room: str) -> Row:
    names = {
        mutant.name
        for path in ROOMS[room].paths()
        for mutant in mutants_of(path, (REPOSITORY / path).read_text(encoding="utf-8"))
    }
    outcomes = Outcomes.read(outcomes_file(room), ROOMS[room].state(), names).by_name
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
    return Row(room, len(names), tried, counts[NOTICED], n_accepted, counts[SURVIVED] + counts[ERROR])


def _print_table(rows: Sequence[Row]) -> None:
    print(f"{'room':10}{'mutants':>9}{'tried':>7}{'noticed':>9}{'accepted':>10}{'survived':>10}{'score':>9}{'goal':>7}")
    for row in rows:
        score = "-" if row.percent is None else f"{row.percent:.1f} %"
        counts = f"{row.n_mutants:9}{row.tried:7}{row.noticed:9}{row.accepted:10}{row.survived:10}"
        print(f"{row.room:10}{counts}{score:>9}{ROOMS[row.room].goal:5} %")


if __name__ == "__main__":
    sys.exit(main())
