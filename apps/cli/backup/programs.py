"""pg_dump and pg_restore for the configured database."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.postgres import CannotStart, clean_environment, find_binaries, packaged_programs
from apps.core.errors import Unavailable


class ProgramFailed(Unavailable):
    """pg_dump or pg_restore ended with an error; the message is its own."""

    code = "database_program"


def find_program(name: str, *, server: int) -> str:
    """Path of a program of PostgreSQL whose major version is at least that of the server."""
    named, places = bool(os.environ.get("PG_BIN")), list[Path]()
    with contextlib.suppress(CannotStart):
        places.append(find_binaries() / name)
    if packaged := packaged_programs():
        places.append(packaged / name)
    places += sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if found := shutil.which(name):
        places.append(Path(found))
    versions = {path: _major(path) for path in places if path.is_file()}
    fitting = {path: version for path, version in versions.items() if version >= server}
    if fitting:
        # A newer pg_restore sends settings that an older server doesn't know.
        return str(places[0] if named and places[0] in fitting else min(fitting, key=fitting.__getitem__))
    have = f"here is {max(versions.values())}" if versions else "none is here"
    raise ProgramFailed(f"PostgreSQL {server} needs its own {name} ({have}): install the package of its client.")


def _major(path: Path) -> int:
    printed = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    found = re.search(r"\) (\d+)", printed)
    return int(found[1]) if found else 0


@contextlib.contextmanager
def dumping(server: int, snapshot: str) -> Iterator[IO[bytes]]:
    """The dump of the database as of an exported snapshot, as a stream."""
    command = [find_program("pg_dump", server=server), "--format=custom", "--compress=0", "--no-owner"]
    command += ["--no-privileges", f"--snapshot={snapshot}"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, **_started())
        try:
            output = cast(IO[bytes], process.stdout)
            yield output
            output.close()
            _check("pg_dump", process.wait(), errors)
        finally:
            _end(process)


@contextlib.contextmanager
def restoring(server: int) -> Iterator[IO[bytes]]:
    """Where to write a dump, which becomes the content of the empty database in one transaction, or nothing does."""
    command = [find_program("pg_restore", server=server), "--single-transaction", "--exit-on-error", "--no-owner"]
    command += ["--no-privileges", f"--dbname={_environment()['PGDATABASE']}"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, **_started())
        try:
            given = cast(IO[bytes], process.stdin)
            try:
                yield given
                given.close()
            except BrokenPipeError:
                _check("pg_restore", process.wait() or 1, errors)
            _check("pg_restore", process.wait(), errors)
        finally:
            _end(process)


def _check(name: str, status: int, errors: IO[bytes]) -> None:
    if status != 0:
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        raise ProgramFailed(f"{name} failed: {lines[0] if lines else f'status {status}'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """However the block ends, end the program: it would wait for its pipe for ever."""
    if process.poll() is None:
        process.kill()
        process.wait()


def _started() -> dict[str, Any]:
    """With this process the program ends, too, and what it restored so far is undone."""
    return {"env": _environment(), "preexec_fn": dying_with_parent(signal.SIGKILL)}


def _environment() -> Mapping[str, str]:
    database: Mapping[str, Any] = settings.DATABASES[DEFAULT_DB_ALIAS]
    options = database.get("OPTIONS", {})
    given = {
        "PGHOST": database.get("HOST")
        or options.get("host"),  # a socket's folder: postgres://…/name?host=/run/postgresql
        "PGPORT": database.get("PORT") or options.get("port"),
        "PGUSER": database.get("USER"),
        "PGPASSWORD": database.get("PASSWORD"),
        "PGDATABASE": database.get("NAME"),
        **{f"PG{name.upper()}": options.get(name) for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")},
        "PGCONNECT_TIMEOUT": "10",
    }
    return {**clean_environment(), **{name: str(value) for name, value in given.items() if value}}
