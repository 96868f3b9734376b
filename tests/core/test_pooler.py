"""Behind PgBouncer in transaction mode: nothing of a session is kept, and yet limits hold and all work is done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections

from apps.cli.stack.postgres import PostgresServer
from apps.core.code_paths import REPOSITORY
from tests.commands import run_manage
from tests.material import missing
from tests.priority_site import Site

pytestmark = pytest.mark.django_db(transaction=True)
PGBOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
# Two connections to the server for eight threads: each statement outside a transaction may meet another one.
_CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
auth_type = any
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
logfile = {folder}/log
"""
_WORK = """
import threading
from django.db import connection, transaction
from apps.core.postgresql import bound_statements, fetch_prepared
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.runs.services import work_run_now
from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.priorities.recompute.staleness import request_recompute

def shown(name):
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]

failures = []
def work():
    try:
        for _ in range(25):
            with transaction.atomic():
                assert shown("lock_timeout") == "30s", shown("lock_timeout")
                assert shown("idle_in_transaction_session_timeout") == "10min"
                assert shown("statement_timeout") == "5min", shown("statement_timeout")
            assert shown("lock_timeout") == "0"
            assert fetch_prepared("one", "SELECT $2::int - $1::int, '100%'", [1, 3]) == (2, "100%")
            assert [policy.slug for policy in Policy.objects.iterator()] == ["grid"]
    except BaseException as error:
        failures.append(repr(error))
    finally:
        connection.close()

bound_statements(300)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures[:2]
run = work_run_now(request_recompute(policy_slug="grid", at=clock.now(), actor=COMMAND).pk)
assert run.state == "succeeded", run.error
from django.core.management import call_command
from django.test import Client

call_command("migrate", check=True, interactive=False, verbosity=0)
answer = Client(headers={"host": "localhost"}).get("/readyz")
assert answer.status_code == 200, answer.content
print("done", Snapshot.objects.filter(pk=run.result["snapshot"]).count())
"""


@pytest.fixture
def pooled_url(tmp_path: Path, free_tcp_port: int) -> Iterator[str]:
    if not Path(PGBOUNCER).exists():
        missing("no PgBouncer", "apt-get install pgbouncer")
    database = connection.settings_dict
    configuration = tmp_path / "pgbouncer.ini"
    names = {"host": database["HOST"], "port": database["PORT"], "user": database["USER"]}
    configuration.write_text(_CONFIGURATION.format(**names, listen=free_tcp_port, folder=tmp_path), encoding="utf-8")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    # PgBouncer doesn't run as root either
    prefix = PostgresServer(Path(settings.VAR))._prefix
    server = subprocess.Popen([*prefix, PGBOUNCER, str(configuration)], stderr=subprocess.PIPE)
    url = f"postgres://{database['USER']}@127.0.0.1:{free_tcp_port}/{database['NAME']}"
    try:
        for _ in range(200):
            try:
                psycopg.connect(url, connect_timeout=1).close()
                break
            except psycopg.OperationalError:
                if server.poll() is not None:
                    raise AssertionError(server.stderr and server.stderr.read()) from None
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _run(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    connections.close_all()
    settings = {**os.environ, "DATABASE_URL": url, **environment}
    return run_manage("shell", "-v", "0", "-c", _WORK, env=settings, text=True)


@pytest.mark.deep
@pytest.mark.fault("F28")
def test_threads_share_two_connections_and_a_recompute_is_done(two_projects: Site, pooled_url: str) -> None:
    result = _run(pooled_url, FAIRSHARE_POOLER="1")
    assert (result.returncode, result.stdout) == (0, "done 1\n"), result.stderr[-3000:]


def test_without_the_setting_the_refusal_is_the_one_that_the_guide_names(two_projects: Site, pooled_url: str) -> None:
    result = _run(pooled_url)
    assert "unsupported startup parameter: options" in result.stderr
    assert "unsupported startup parameter: options" in (REPOSITORY / "docs/operate.md").read_text(encoding="utf-8")
