"""An upgrade: nothing is lost, nothing waits long, and what can't be done is refused with the reason."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

from apps.cli.backup.before_upgrade import UNFINISHED, back_up_before_upgrade, end_upgrade
from apps.cli.backup.contents import examine_backup
from apps.cli.stack import migration
from apps.cli.stack.migration_check import check_migrations
from apps.cli.stack.paths import socket_dir
from apps.cli.stack.postgres import DATABASE, PORT, USER, CannotStart, PostgresServer, find_binaries
from apps.cli.stack.upgrading import upgrade_cluster
from apps.core.code_paths import REPOSITORY
from apps.core.pending_migrations import pending_migrations
from apps.core.release import __version__
from tests.cli import release_fixture
from tests.cli.test_backup import Machine, other
from tests.commands import run_manage
from tests.databases import Databases
from tests.faults.conftest import FirstStart, first_start
from tests.faults.stack import Stack
from tests.instants import AT
from tests.material import missing
from tests.priority_site import Site
from tests.shared_setup import set_up_once

__all__ = ["first_start", "other"]  # fixtures

# Locks and room


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "LOCK_S", 0.1)
    monkeypatch.setattr(migration, "PAUSE_S", 0.05)


@contextlib.contextmanager
def other_session(statement: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of another process that keeps what the statement has locked."""
    database = connection.settings_dict
    place = {"host": database["HOST"], "port": database["PORT"], "user": database["USER"], "dbname": database["NAME"]}
    with psycopg.connect(**place, application_name="importer") as session:
        session.execute(statement)
        yield session


def add_column() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE usage_source ADD COLUMN IF NOT EXISTS upgraded integer")


@pytest.mark.fault("F26")
@pytest.mark.django_db(transaction=True)
def test_a_migration_does_not_queue_others_behind_it_and_goes_on_when_a_lock_is_free(impatient: None) -> None:
    printed: list[str] = []
    with other_session("LOCK TABLE usage_source IN ACCESS SHARE MODE") as session:
        session.execute("SELECT pg_sleep(1.1)")

        def say(line: str) -> None:
            printed.append(line)
            with other_session("SET lock_timeout = '1s'") as reader:  # would wait behind a waiting ALTER TABLE
                reader.execute("SELECT count(*) FROM usage_source")
            session.rollback()

        migration.migrate_patiently(add_column, say=say)
    assert len(printed) == 1
    assert re.fullmatch(r"Tables are in use \(importer \d+ for \d+ s\)\. The migration is tried again\.", printed[0])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(upgraded) FROM usage_source")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] == "30s", "as before"
        cursor.execute("ALTER TABLE usage_source DROP COLUMN upgraded")


@pytest.mark.django_db(transaction=True)
def test_a_migration_gives_up_with_the_name_of_the_process_that_holds_the_lock(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "PATIENCE_S", 0.5)
    refusal = pytest.raises(CommandError, match=r"in use \(importer \d+ for .*Stop workers and beat, and start again")
    with other_session("LOCK TABLE usage_source IN ACCESS SHARE MODE") as session:
        session.execute("SELECT pg_sleep(1.1)")
        with refusal:
            migration.migrate_patiently(add_column, say=lambda _line: None)


@pytest.mark.django_db(transaction=True)
def test_two_processes_migrate_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    with other_session(f"SELECT pg_advisory_lock({migration._MIGRATING})") as session:

        def say(line: str) -> None:
            printed.append(line)
            session.close()

        migration.migrate_patiently(lambda: printed.append("migrated"), say=say)
    assert printed == ["Another process migrates the tables: waiting for it.", "migrated"]
    monkeypatch.setattr(migration, "PATIENCE_S", 0.2)
    with (
        other_session(f"SELECT pg_advisory_lock({migration._MIGRATING})"),
        pytest.raises(CommandError, match="Another process migrates the tables: wait for it, or end it"),
    ):
        migration.migrate_patiently(lambda: None, say=lambda _line: None)


@pytest.mark.django_db(transaction=True)
def test_an_upgrade_with_too_little_disk_is_refused_with_what_it_needs(
    two_projects: Site, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAIRSHARE_EMBEDDED_DATABASE = True
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("runs")
    MigrationRecorder(connection).record_unapplied(*newest)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: shutil._ntuple_diskusage(2**40, 2**40, 7 * 2**20))
    with pytest.raises(CommandError, match=r"The upgrade needs 101 MB on the disk of .*, and 8 MB are free: make room"):
        call_command("migrate", interactive=False, verbosity=0)
    assert [each.name for each in pending_migrations()] == [newest[1]]
    MigrationRecorder(connection).record_applied(*newest)
    call_command("migrate", interactive=False, verbosity=0)  # nothing is pending


@pytest.mark.django_db(transaction=True)
def test_the_room_of_a_migration_is_that_of_the_table_that_it_copies(two_projects: Site) -> None:
    class Copying(Migration):
        copies: ClassVar = {"usage_record": "usage_record_copy"}

    class Small(Migration):
        pass

    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('usage_record')")
        size = int(cursor.fetchone()[0])
    assert size > 0
    small, large = (migration.measure_room([kind("0099", "usage")]).needed for kind in (Small, Copying))
    assert large - small == 2 * size, "the copy, and its write-ahead log"


# The one-command stack


LATER = "starts"  # a plug-in that others don't refer to


@contextlib.contextmanager
def running(server: PostgresServer) -> Iterator[PostgresServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def remove_later(database: psycopg.Connection[Any]) -> None:
    """Its tables and its migration: the database is as a release before it left it."""
    tables = [model._meta.db_table for model in apps.get_app_config(LATER).get_models()]
    database.execute(f"DROP TABLE {', '.join(tables)}")
    database.execute("DELETE FROM django_migrations WHERE app = %s", [LATER])


@pytest.fixture
def former(first_start: FirstStart) -> Iterator[Stack]:
    """A stopped instance whose database lacks a migration, as of an earlier release."""

    def make(place: Path) -> dict[str, Any]:
        stack = Stack(like=first_start.var, place=place)
        with running(PostgresServer(stack.var)) as server, server.connect() as database:
            remove_later(database)
        return {"var": str(stack.var)}

    stack = Stack(like=Path(set_up_once("former-release", make)["var"]))
    yield stack
    stack.remove()


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_up_backs_an_instance_up_before_its_upgrade(former: Stack) -> None:
    backups = former.var / "backups"
    former.start()
    (made,) = backups.iterdir()
    assert "ERROR: " not in former.output_text(), "a healthy upgrade alarms nobody"
    assert re.search(rf"Backed up before the upgrade, [\d,]+ bytes, verified: {made}\n", former.output_text())
    former.assert_works()
    assert former.signal(signal.SIGINT) == 0
    with made.open("rb") as file:
        in_backup = {each.partition(".")[0] for each in examine_backup(file).manifest["migrations"]}
        assert "usage" in in_backup
        assert LATER not in in_backup, "of the former release"
    assert not (former.var / UNFINISHED).exists()


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_upgrade_keeps_the_backup_of_before_it(tmp_path: Path, settings: Any) -> None:
    """As a kill before the last migration leaves it. Nobody would ask for a backup where nothing is pending."""
    settings.VAR = tmp_path
    backups, printed = tmp_path / "backups", list[str]()

    def back_up() -> list[Path]:
        back_up_before_upgrade(at=AT, say=printed.append)
        return sorted(backups.glob("*"))

    assert (back_up(), printed) == ([], []), "nothing is pending"
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("runs")
    MigrationRecorder(connection).record_unapplied(*newest)
    (made,) = back_up()
    assert re.fullmatch(rf"Backed up before the upgrade, [\d,]+ bytes, verified: {made}", printed.pop())
    assert (back_up(), printed.pop()) == ([made], f"Going on with an interrupted upgrade; the backup before it: {made}")
    end_upgrade()
    MigrationRecorder(connection).record_applied(*newest)
    assert (back_up(), printed) == ([made], []), "the upgrade is over"


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_failed_backup_stops_the_upgrade_and_names_the_way_without(former: Stack, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in find_binaries().iterdir():
        (programs / program.name).symlink_to(program)
    (programs / "pg_dump").unlink()
    (programs / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 99.0'; echo 'no luck' >&2; exit 1\n")
    (programs / "pg_dump").chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    former.settings["PG_BIN"] = str(programs)
    assert former.launch().wait(120) == 1
    assert (
        "The backup before the upgrade failed: pg_dump failed: no luck Nothing was upgraded. "
        "`up --no-backup` goes on without one.\n"
    ) in former.output_text()
    assert list((former.var / "backups").iterdir()) == []
    former._arguments.append("--no-backup")
    former.start()
    assert list((former.var / "backups").iterdir()) == []
    assert former.signal(signal.SIGINT) == 0


# What can't be upgraded


@pytest.mark.django_db(transaction=True)
def test_an_old_server_and_a_newer_database_are_refused_with_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_migrations(["default"]) == []
    monkeypatch.setattr("apps.cli.stack.migration_check.OLDEST_VERSION", 99)
    (old,) = check_migrations(["default"])
    assert re.fullmatch(r"The database is of PostgreSQL \d+, and 99 is the oldest that works\.", str(old.msg))
    monkeypatch.undo()
    MigrationRecorder(connection).record_applied("usage", "9999_of_tomorrow")
    try:
        (newer,) = check_migrations(["default"])
    finally:
        MigrationRecorder(connection).record_unapplied("usage", "9999_of_tomorrow")
    assert "it has the migration usage.9999_of_tomorrow" in str(newer.msg)
    assert "Run the version that made it, or restore the backup from before its upgrade." in str(newer.hint)


# The next major version of PostgreSQL

OLD = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def old_instance(databases: Databases, pytestconfig: pytest.Config) -> Iterator[Stack]:
    """A folder with the tables and an administrator in an embedded database of PostgreSQL 15.

    Its tables are those of the suite's dump; with `--deep`, PostgreSQL 15 migrates an empty database.
    """
    if not (OLD / "postgres").exists():
        missing("no PostgreSQL 15", "apt-get install postgresql-15")
    is_migrated = bool(pytestconfig.getoption("deep")) or not databases.schema.exists()
    make = _make_old_instance if is_migrated else partial(_load_old_instance, schema=databases.schema)
    made = Path(set_up_once("postgresql-15", make)["var"])
    stack = Stack()
    subprocess.run(["cp", "-a", f"{made}/.", stack.var], check=True)
    yield stack
    stack.remove()


def _make_old_instance(place: Path) -> dict[str, Any]:
    stack = Stack(place=place, settings={"PG_BIN": str(OLD)})
    stack.manage("with_stack", "--", sys.executable, "manage.py", "create_user", "ann", patience_s=600)
    return {"var": str(stack.var)}


def _load_old_instance(place: Path, *, schema: Path) -> dict[str, Any]:
    stack = Stack(place=place)
    with running(PostgresServer(stack.var, binaries=OLD)) as server, server.connect() as database:
        unknown_to_it = "SET transaction_timeout = 0;\n"
        database.execute(schema.read_text(encoding="utf-8").replace(unknown_to_it, "").encode())
        stack.manage("create_user", "ann")
    return {"var": str(stack.var)}


def upgrade_postgresql(stack: Stack, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**stack.environment, "FAIRSHARE_TESTING": "1", "FAULT": fault}
    return run_manage("upgrade_postgresql", *arguments, env=environment, text=True)


def n_users(stack: Stack) -> str:
    """By psql, in the database that a command starts for it as for any other."""
    place = ("-h", str(socket_dir(stack.var)), "-p", str(PORT), "-U", USER, "-d", DATABASE)
    question = "SELECT count(*) FROM accounts_user WHERE username = 'ann'"
    return stack.manage("with_stack", "--", str(OLD / "psql"), *place, "-Xtc", question).strip()


@pytest.mark.deep
@pytest.mark.fault("F26")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "killed_at",
    [
        pytest.param(("upgrade_whole",), id="at the end"),
        pytest.param(("upgrade_loaded", "upgrade_compared", "upgrade_whole"), id="everywhere"),
    ],
)
def test_a_database_of_postgresql_15_is_loaded_into_the_present_one_however_often_it_is_killed(
    old_instance: Stack, killed_at: tuple[str, ...]
) -> None:
    data = old_instance.var / "pg"
    refused = subprocess.run(
        [sys.executable, "manage.py", "up"], cwd=REPOSITORY, env=old_instance.environment, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert f"{data} was made by PostgreSQL 15, but" in refused.stderr
    assert "run manage.py upgrade_postgresql" in refused.stderr
    other = upgrade_postgresql(old_instance, "--old-bin", str(find_binaries()))
    assert "and the data is of PostgreSQL 15: name other programs" in other.stderr
    for point in killed_at:
        killed = upgrade_postgresql(old_instance, fault=f"{point}:kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (data / "PG_VERSION").read_text() == "15\n", point
    old_instance.settings["PG_BIN"] = str(OLD)
    assert n_users(old_instance) == "1", "the former database works with its programs"
    del old_instance.settings["PG_BIN"]
    assert upgrade_postgresql(old_instance, fault="upgrade_kept:kill").returncode == -signal.SIGKILL
    assert not data.exists()
    assert n_users(old_instance) == "1", "the next start finishes it"
    version = (data / "PG_VERSION").read_text().strip()
    assert int(version) > 15
    assert (old_instance.var / "pg.15" / "PG_VERSION").read_text() == "15\n"
    again = upgrade_postgresql(old_instance)
    assert again.stdout == f"{data} is of PostgreSQL {version} already.\n", again.stderr
    assert not (old_instance.var / "pg.upgrade").exists()


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_change_of_postgresql_is_refused_before_it_begins(
    old_instance: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    var = old_instance.var
    printed: list[str] = []
    with pytest.raises(CannotStart, match=r"name its folder of programs with --old-bin"):
        upgrade_cluster(var, old_binaries="/nowhere", say=printed.append)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: shutil._ntuple_diskusage(2**40, 2**40, 7 * 2**20))
    with pytest.raises(CannotStart, match=r"needs \d+ MB on the disk of .*, and 7 MB are free: make room"):
        upgrade_cluster(var, say=printed.append)
    monkeypatch.undo()
    (var / "pg.15").mkdir()
    with pytest.raises(CannotStart, match=r"pg\.15 is there already"):
        upgrade_cluster(var, say=printed.append)
    (var / "pg.15").rmdir()
    assert printed == []
    (var / "pg" / "PG_VERSION").write_text("99\n")
    with pytest.raises(CannotStart, match=r"was made by PostgreSQL 99, and .* is older"):
        upgrade_cluster(var, say=printed.append)


# An instance of the kept build

KEPT = release_fixture.FOLDER / f"{__version__}.backup"
LATER_RELEASE = {
    "later_release.py": """
from fairshare_web.settings import *

MIGRATION_MODULES = {"usage": "later_migrations"}
""",
    "later_migrations/__init__.py": """
import apps.usage.migrations

__path__ = [*__path__, *apps.usage.migrations.__path__]
""",
    "later_migrations/0002_rewrite.py": """
from django.db import migrations

from apps.runs.fault_points import fault_point


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]
    operations = [
        migrations.RunSQL("ALTER TABLE usage_record ADD COLUMN cpus_then float8"),
        migrations.RunSQL("UPDATE usage_record SET cpus_then = cpus, cpus = NULL"),
        migrations.RunPython(lambda *_: fault_point("later_migration")),
        migrations.RunSQL("UPDATE usage_record SET cpus = cpus_then"),
    ]
""",
}
_ASK = """
from apps.accounts.models import User
from django.test import Client
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.get(username="root"))
response = client.get(PATH)
assert response.status_code == 200, response.content
print((b"".join(response) if response.streaming else response.content).decode())
"""
_SCHEMA = """
SELECT 'column', table_name, column_name, data_type || COALESCE(character_maximum_length::text, '') || is_nullable,
    COALESCE(column_default, '') FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef, '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), ''
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '' FROM pg_trigger
    WHERE NOT tgisinternal
UNION ALL SELECT 'function', '', proname, prosrc, '' FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""


def schema_of(url: str) -> set[tuple[Any, ...]]:
    """Tables, indexes, rules and code of a database, without the partitions that its rows need."""
    with psycopg.connect(url) as database:
        rows = database.execute(_SCHEMA).fetchall()
    return {_as_dumped(*row) for row in rows if not re.match(r"usage_record_\d", str(row[1]))}


def _as_dumped(kind: str, of: str, name: str, definition: str, default: str) -> tuple[str, ...]:
    """PostgreSQL writes casts of an expression otherwise once it was dumped and loaded, as test databases may be."""
    if kind in ("index", "constraint", "trigger"):
        definition = re.sub(r"::[a-z]+( varying)?(\[\])?|[()\s]", "", definition)
    return kind, of, name, definition, default


@pytest.mark.deep
@pytest.mark.fault("F26")
@pytest.mark.product
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
def test_an_instance_of_the_kept_build_is_upgraded_after_a_kill_and_answers_as_recorded(
    other: Machine, tmp_path: Path
) -> None:
    """A migration of a later release rewrites its records. The former build then refuses the database."""
    restored = other.run("restore", str(KEPT), "--any-origin")
    assert restored.returncode == 0, restored.stderr.decode()
    database = connection.settings_dict
    server = f"{database['USER']}@{quote(str(database['HOST']), safe='')}:{database['PORT']}"
    before = schema_of(other.url)
    assert before == schema_of(f"postgres://{server}/{database['NAME']}"), "as in an empty database"
    for name, text in LATER_RELEASE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    later: dict[str, Any] = {"DJANGO_SETTINGS_MODULE": "later_release", "PYTHONPATH": str(tmp_path)}

    assert other.run("migrate", **later, FAULT="later_migration:kill").returncode == -signal.SIGKILL
    assert schema_of(other.url) == before
    assert_answers_as_recorded(other)
    migrated = other.run("migrate", **later)
    assert migrated.returncode == 0, migrated.stderr.decode()
    assert {row[2] for row in schema_of(other.url) - before} == {"cpus_then"}
    assert_answers_as_recorded(other, **later)
    refused = other.run("migrate")
    assert "it has the migration usage.0002_rewrite, which this version lacks" in refused.stderr.decode()


def assert_answers_as_recorded(machine: Machine, **release: Any) -> None:
    recorded = json.loads(KEPT.with_suffix(".json").read_text(encoding="ascii"))
    code = _ASK.replace("PATH", repr(recorded["path"]))
    asked = machine.run("shell", "--no-imports", "-c", code, FAIRSHARE_CLOCK=recorded["at"], **release)
    assert asked.returncode == 0, asked.stderr.decode()[-2000:]
    lines = [json.loads(line) for line in asked.stdout.decode().strip().splitlines()]
    assert len(lines) == len(recorded["lines"])
    for line, known in zip(lines, recorded["lines"], strict=True):
        assert {key: line[key] for key in known} == known, "a later release may add fields, and changes no number"
    with psycopg.connect(machine.url) as database:
        stored = database.execute("SELECT count(*) > 0, count(*) = count(cpus) FROM usage_record").fetchone()
    assert stored == (True, True)
    audited = machine.run("verify_audit", **release)
    assert audited.returncode == 0, audited.stdout.decode() + audited.stderr.decode()


def test_the_kept_build_has_its_fixture() -> None:
    assert KEPT.exists(), "run python -m tests.cli.release_fixture"
    assert KEPT.stat().st_size < 300_000
