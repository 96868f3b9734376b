"""Runs `measure()` of every module of this package (or of those named) on a database of its own, and prints a table.

With --large it is `measure_large()`: what takes too long between two commits. `pages` has a table of its own.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import bench
from apps.runs.memory import keep_freed_memory
from bench import own_copy, pages, site_load
from bench.report import BenchLine, table

_NOT_MEASURED = {"__main__", "report", "shapes", "web_server", "web_settings"}


_FIRST = ("audit", "prediction")  # an empty log; usage up to now, while no other bench has left sources that are late


def _place(name: str) -> tuple[int, str]:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["pages"]:
        return pages.print_table(arguments[1:], _own_database)
    keep_freed_memory()  # as workers do
    options = _options(arguments)
    site_load.N_ENTRIES, site_load.N_RECORDS, site_load.ROUNDS = options.entries, options.records, options.rounds
    entrance = "measure_large" if options.large else "measure"
    chosen = sorted(options.names or (module.name for module in pkgutil.iter_modules(bench.__path__)), key=_place)
    lines: list[BenchLine] = []
    with _own_database():
        for name in chosen:
            if name in _NOT_MEASURED:
                continue
            module = importlib.import_module(f"bench.{name}")
            measure = getattr(module, entrance, None)
            if measure is None:
                continue
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            began = time.monotonic()
            result: BenchLine | Iterable[BenchLine] = measure()
            lines += [result] if isinstance(result, BenchLine) else list(result)
            print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(lines))
    return 0 if lines else 1  # a goal missed on a busy machine is a hint, not a failure


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules of this package; default: all")
    parser.add_argument("--large", action="store_true", help="what takes long")
    parser.add_argument("--entries", type=int, default=site_load.N_ENTRIES, help="of the whole site of site_load")
    parser.add_argument("--records", type=int, default=site_load.N_RECORDS, help="of the whole site of site_load")
    parser.add_argument("--rounds", type=int, default=site_load.ROUNDS, help="of the eight readers; 0: one reader")
    return parser.parse_args(arguments)


@contextmanager
def _own_database() -> Iterator[None]:
    """Never the data of a running instance; as durable as an instance's, so that imports are measured honestly."""
    var = Path(tempfile.mkdtemp(prefix="fairshare-bench-"))
    os.environ["FAIRSHARE_VAR"] = str(var)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    os.environ.pop("DATABASE_URL", None)
    from apps.cli.stack.postgres import PostgresServer

    server = PostgresServer(var)
    try:
        server.start()
        import django
        from django.core.management import call_command

        django.setup()
        logging.disable(logging.WARNING)  # progress of imports is no figure
        call_command("migrate", interactive=False, verbosity=0)
        own_copy.keep_empty()
        yield
    finally:
        server.stop()
        shutil.rmtree(var, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
