"""The database is recovered to a point in time from its archived log, by PostgreSQL's own means."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from apps.cli.stack import processes
from apps.cli.stack.postgres import DATABASE, PORT, USER, PostgresServer, clean_environment, find_binaries
from tests.commands import run_manage
from tests.faults.conftest import FirstStart
from tests.faults.stack import copy_instance, eventually

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(420),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]
_HEAD = """
from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.federation.models import Publication
from apps.federation.publishing import current_document, make_publication
from apps.policies.models import Policy
from apps.policies.services import make_policy, publish_document
def publish(shares):
    tree = {"name": "grid", "children": [{"name": "physics", "shares": shares, "children": []}]}
    publish_document(policy_slug="grid", document={"root": tree}, reason="x", at=clock.now(), actor=COMMAND)
def version():
    return current_document(Publication.objects.get(), at=clock.now()).document.version
"""
_BEGIN = """
make_policy(slug="grid", name="grid", at=clock.now(), actor=COMMAND)
publish(1)
make_publication(policy_slug="grid", entry="/", name="grid", is_open=True, at=clock.now(), actor=COMMAND)
print(version())
"""
_REVISION = "print(Policy.objects.get().head_number)"


class Server:
    """A PostgreSQL that archives its log, and commands on its database."""

    def __init__(self, home: Path, archive: Path) -> None:
        self.home = home
        options = {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
        self.postgres = PostgresServer(home, options=options)

    def manage(self, *arguments: str) -> str:
        url = f"postgres://{USER}@{quote(str(self.postgres.sockets), safe='')}:{PORT}/{DATABASE}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "DATABASE"))}
        own = {"DATABASE_URL": url, "FAIRSHARE_VAR": str(self.home), "FAIRSHARE_ISSUER": "one.example"}
        done = run_manage(*arguments, env={**kept, **own}, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def run(self, code: str) -> str:
        return self.manage("shell", "-v", "0", "-c", _HEAD + code).splitlines()[-1]

    def ask(self, statement: str) -> str:
        with self.postgres.connect() as session:
            row = session.execute(statement.encode()).fetchone()
        return "" if row is None else str(row[0])


@pytest.fixture
def homes(first_start: FirstStart) -> Iterator[tuple[Path, Path, Path]]:
    """A prepared instance, an empty folder for another one, and the archive of the log."""
    with tempfile.TemporaryDirectory(prefix="fs-", dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        homes = place / "one", place / "two", place / "archive"
        for home in homes:
            home.mkdir()
        homes[2].chmod(0o777)
        copy_instance(first_start.var, homes[0])
        yield homes


@pytest.mark.fault("F27")
def test_a_database_recovered_to_a_point_in_time_goes_on(homes: tuple[Path, Path, Path]) -> None:
    one_home, two_home, archive = homes
    one = Server(one_home, archive)
    one.postgres.start()
    try:
        first = int(one.run(_BEGIN))
        base = one_home / "base"
        command = [str(find_binaries() / "pg_basebackup"), "-h", str(one.postgres.sockets), "-p", str(PORT)]
        subprocess.run(
            [*command, "-U", USER, "-D", str(base), "--checkpoint=fast"],
            env=clean_environment(), check=True, timeout=120, capture_output=True,
        )  # fmt: skip
        revision = one.run(f"publish(2)\n{_REVISION}")
        instant = one.ask("SELECT now()")
        seen_by_peers = int(one.run("publish(3)\npublish(4)\nprint(version())"))
        assert seen_by_peers > first
        segment = one.ask("SELECT pg_walfile_name(pg_switch_wal())")
        eventually((archive / segment).exists, "the log is archived", within_s=60)
    finally:
        one.postgres.stop()
    for name in ("secret_key", "token_pepper", "pseudonym_key"):
        shutil.copy2(one_home / name, two_home / name)
    shutil.copytree(base, two_home / "pg")
    two = Server(two_home, archive)
    subprocess.run(["chown", "-R", f"--reference={one_home / 'pg'}", str(two_home / "pg")], check=True)
    (two_home / "pg").chmod(0o700)
    (two_home / "pg/recovery.signal").touch()
    two.postgres.options = {
        "restore_command": f"cp {archive}/%f %p",
        "recovery_target_time": instant,
        "recovery_target_action": "promote",
    }
    two.postgres.start()
    try:
        eventually(lambda: two.ask("SELECT pg_is_in_recovery()") == "False", "it is recovered", within_s=60)
        assert two.run(_REVISION) == revision
        assert "unbroken" in two.manage("verify_audit")
        two.manage("federation", "skip-numbers", "--reason", "recovered")
        assert int(two.run("publish(5)\nprint(version())")) > seen_by_peers
        assert "unbroken" in two.manage("verify_audit")
    finally:
        two.postgres.stop()
