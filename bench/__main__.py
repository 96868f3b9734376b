"""Runs `measure()` of every module of this package (or of those named) on a database of its own, and prints a table.

With --large it is `measure_large()`: what takes too long between two commits. `pages` has a table of its own. The exit
status is 1 if a goal is missed by more than the noise (`report.NOISE`). With --against COMMIT the hot roads of both
commits are measured beside each other instead (`bench.against`).
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
import traceback
from collections.abc import Iterable

import bench
from apps.runs.memory import keep_freed_memory
from bench import against, beside_slurm, hot_roads, pages, site_load
from bench.own_database import own_database
from bench.report import BenchLine, exit_status, table

_NOT_MEASURED = {"__main__", "report", "shapes", "web_server", "web_settings"}


_FIRST = ("audit",)  # an empty log


def _place(name: str) -> tuple[int, str]:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["pages"]:
        return pages.print_table(arguments[1:], own_database)
    keep_freed_memory()  # as workers do
    options = _options(arguments)
    if options.against:
        roads = options.names or list(hot_roads.ROADS)
        counts_instructions = not options.without_instructions
        return against.compare(options.against, roads, n_blocks=options.blocks, counts_instructions=counts_instructions)
    site_load.ROUNDS = options.rounds
    if options.entries:
        site_load.N_ENTRIES = beside_slurm.N_ENTRIES = options.entries
    if options.records:
        site_load.N_RECORDS = beside_slurm.N_RECORDS = options.records
    beside_slurm.RECORDS_RUN = options.record
    entrance = "measure_large" if options.large else "measure"
    chosen = sorted(options.names or (module.name for module in pkgutil.iter_modules(bench.__path__)), key=_place)
    lines: list[BenchLine] = []
    failed: list[str] = []
    with own_database():
        for name in chosen:
            if name in _NOT_MEASURED:
                continue
            module = importlib.import_module(f"bench.{name}")
            measure = getattr(module, entrance, None)
            if measure is None:
                continue
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            began = time.monotonic()
            try:
                result: BenchLine | Iterable[BenchLine] = measure()
                for line in (result,) if isinstance(result, BenchLine) else result:
                    lines.append(line)  # one by one: those before a failure are kept
            except Exception:  # what the others measured is printed all the same
                traceback.print_exc()
                failed.append(name)
            print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(lines))
    if failed:
        print(f"FAILED, see above: {', '.join(failed)}")
    return 1 if failed else exit_status(lines)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules of this package; default: all")
    parser.add_argument("--large", action="store_true", help="what takes long")
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure the hot roads of this commit, too; names choose roads"
    )
    parser.add_argument("--without-instructions", action="store_true", help="with --against: they take the longest")
    parser.add_argument("--blocks", type=int, default=against.BLOCKS, help="of four processes each, with --against")
    parser.add_argument("--entries", type=int, help="of the whole site of site_load and beside_slurm")
    parser.add_argument("--records", type=int, help="of the whole site of site_load and beside_slurm")
    parser.add_argument("--record", action="store_true", help="store the run of beside_slurm for docs/scale.md")
    parser.add_argument("--rounds", type=int, default=site_load.ROUNDS, help="of the eight readers; 0: one reader")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
