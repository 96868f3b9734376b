"""Faults planted one by one in a healthy production site: `manage.py doctor` names each, and nothing else.

`.venv/bin/python -m pytest -n 0 --deep tests/cli/test_planted_faults.py` tries all of them, a test each.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.test_doctor import PRODUCTION
from tests.closed_port import CLOSED_PORT
from tests.commands import run_manage
from tests.faults.conftest import FirstStart, first_start  # noqa: F401 - fixture
from tests.faults.stack import Stack

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]
FILLED = """
import io, json
from datetime import timedelta
from apps.accounts.actor import SYSTEM
from apps.core import clock
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.usage.services import NewSource, PushedRecords, make_source, push_records
from tests.small_site import JOBS, TREE, record
now = clock.now()
at = now - timedelta(days=20)
policy = make_policy(slug="grid", name="Grid", at=at, actor=SYSTEM)
publish_document(policy_slug="grid", document={"root": TREE}, reason="The first tree.", at=at, actor=SYSTEM)
policy.refresh_from_db()
root = load_tree(policy).uuid(0)
set_rules(policy_slug="grid", at=at, actor=SYSTEM,
    rules=[Rule(kind="glob", target_uid=root, group_pattern="*", suffix="/{group}/{user}")])
make_source(NewSource(slug="cluster-a", name="Cluster A", namespace="a", site="s1"), at=at, actor=SYSTEM)
jobs = [record(f"{day}.{job}", user, group, hours, at=now - timedelta(days=day))
    for day in range(20) for job, user, group, hours in JOBS]
body = io.BytesIO(json.dumps(jobs).encode())
push_records(PushedRecords("cluster-a", body, "application/json", gzip=False, idempotency_key=None, atomic=False),
    at=now, actor=SYSTEM)
"""


@dataclass
class Site:
    """A running production site, and what a planted fault needs of it."""

    stack: Stack
    folder: Path  # for files of faults

    def sql(self, *statements: str) -> None:
        with self.stack.connect() as session:
            session.execute("SET session_replication_role = replica")  # without the triggers that refuse changes
            for statement in statements:
                session.execute(statement)

    def move_reports(self, role: str, by_s: int) -> None:
        """When processes last said that they live."""
        with self.stack.connect() as session:
            session.execute(
                "UPDATE runs_siteprocess SET seen_at = seen_at + make_interval(secs => %s) WHERE role = %s",
                [by_s, role],
            )

    def file(self, name: str, content: str = "", mode: int = 0o600) -> Path:
        path = self.folder / name
        path.write_text(content)
        path.chmod(mode)
        return path

    def doctor(self, settings: Mapping[str, str]) -> tuple[int, set[str], str]:
        """Exit status, the names of all findings, and the report."""
        done = run_manage("doctor", "--json", env={**self.stack.environment, **settings}, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        sections = json.loads(done.stdout)["sections"].values()
        return done.returncode, {each["name"] for part in sections for each in part["findings"]}, done.stdout


Planted = Callable[[Site], AbstractContextManager[Mapping[str, str]]]  # yields settings of the command


def setting(**values: str) -> Planted:
    """A wrong setting of the environment. {closed}: a port where nothing listens; {folder}: a folder for files."""

    @contextmanager
    def plant(site: Site) -> Iterator[Mapping[str, str]]:
        yield {name: value.format(closed=CLOSED_PORT, folder=site.folder) for name, value in values.items()}

    return plant


def file(name: str, content: str = "", mode: int = 0o600, **values: str) -> Planted:
    """A file, and settings that name it."""

    @contextmanager
    def plant(site: Site) -> Iterator[Mapping[str, str]]:
        path = site.file(name, content, mode)
        yield {key: value.format(folder=site.folder) for key, value in values.items()}
        path.unlink()

    return plant


def rows(*planted: str, undone: tuple[str, ...]) -> Planted:
    """Statements in the database, and those that take them back."""

    @contextmanager
    def plant(site: Site) -> Iterator[Mapping[str, str]]:
        site.sql(*planted)
        yield {}
        site.sql(*undone)

    return plant


def stopped(role: str) -> Planted:
    """Processes that hang, so that they have long not reported."""

    @contextmanager
    def plant(site: Site) -> Iterator[Mapping[str, str]]:
        pids = [pid for name in (role, f"{role} child") for pid in site.stack.roles()[name]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        site.move_reports(role, -200)
        yield {}
        site.move_reports(role, 200)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    return plant


@contextmanager
def long_transaction(site: Site) -> Iterator[Mapping[str, str]]:
    with site.stack.connect() as session:
        session.execute("BEGIN")
        session.execute("SELECT 1")
        yield {"FAIRSHARE_STALL_S": "0"}
        session.execute("ROLLBACK")


@contextmanager
def wrong_day(site: Site) -> Iterator[Mapping[str, str]]:
    """The stored decayed usage of one day is doubled, and halved again."""
    code = (
        "from apps.policies.models import Policy\n"
        "from apps.series.tiles import read_month, write_month\n"
        "from apps.series.models import Series, SeriesDay\n"
        "policy = Policy.objects.get(slug='grid')\n"
        "on = SeriesDay.objects.filter(policy=policy).order_by('-on')[0].on\n"
        "n_slots = Series.objects.get(policy=policy).n_slots\n"
        "month = read_month(policy, on.replace(day=1), n_days=on.day, n_slots=n_slots)\n"
        "month['decayed'][on.day - 1] = month['decayed'][on.day - 1] * {factor}\n"
        "write_month(policy, on.replace(day=1), month)\n"
    )
    site.stack.run(code.format(factor=2.0))
    yield {}
    site.stack.run(code.format(factor=0.5))


@contextmanager
def damaged_snapshot(site: Site) -> Iterator[Mapping[str, str]]:
    """In the database, and without a copy on this host."""
    folder, away = site.stack.var / "snapshots", site.stack.var / "snapshots.away"
    folder.rename(away)
    site.sql("UPDATE priorities_snapshot SET data = 'x'::bytea || data")
    yield {}
    site.sql("UPDATE priorities_snapshot SET data = substr(data, 2)")
    shutil.rmtree(folder, ignore_errors=True)
    away.rename(folder)


@contextmanager
def half_written_backup(site: Site) -> Iterator[Mapping[str, str]]:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = site.folder / f".fairshare-20261128T170318Z.backup.{ended.pid}"
    path.write_bytes(b"cut")
    yield {"FAIRSHARE_BACKUP_DIR": str(site.folder)}
    path.unlink()


@contextmanager
def interrupted_restore(site: Site) -> Iterator[Mapping[str, str]]:
    path = site.stack.var / "restore.unfinished"
    path.write_text("{}")
    yield {}
    path.unlink()


@dataclass(frozen=True)
class Fault:
    """names: of all findings. Two where the same setting is also a system check or one of the running processes."""

    what: str
    plant: Planted
    names: frozenset[str]


def fault(what: str, plant: Planted, *names: str) -> Fault:
    return Fault(what, plant, frozenset(names))


# Nothing is computed in the minutes of this test, and workers that hang a moment aren't silent.
SETTINGS = {**PRODUCTION, "FAIRSHARE_TICK_S": "3600", "FAIRSHARE_LEASE_S": "600"}
MAIL = {"FAIRSHARE_EMAIL": "smtp", "FAIRSHARE_EMAIL_HOST": "127.0.0.1", "FAIRSHARE_EMAIL_TLS": "none"}
LDAP = {"FAIRSHARE_LDAP_PEOPLE": "ou=people", "FAIRSHARE_LDAP_URL": "ldaps://127.0.0.1:{closed}"}
OIDC = {"FAIRSHARE_OIDC_CLIENT_ID": "fairshare", "FAIRSHARE_OIDC_CLIENT_SECRET": "word"}
PROCESS = (
    "INSERT INTO runs_siteprocess (holder, role, host, shared, seen_at, queues, clock_ahead_s) SELECT 'x:1:2:3', role,"
    " 'node2', {shared}, clock_timestamp(), queues, {ahead} FROM runs_siteprocess WHERE role = 'worker'"
    " ORDER BY seen_at DESC LIMIT 1"
)
GONE = ("DELETE FROM runs_siteprocess WHERE host = 'node2'",)
FAULTS = [
    # settings that name something outside
    fault("mail server", setting(**MAIL, FAIRSHARE_EMAIL_PORT="{closed}"), "mail_unreachable"),
    fault("directory", setting(**LDAP), "directory_unreachable"),
    fault("issuer", setting(**OIDC, FAIRSHARE_OIDC_ISSUER="https://127.0.0.1:{closed}"), "issuer_unreachable"),
    fault("proxy", setting(FAIRSHARE_OUTBOUND_PROXY="http://127.0.0.1:{closed}"), "proxy_unreachable"),
    fault(
        "certificates that are none",
        file("ca.pem", "no certificate", FAIRSHARE_OUTBOUND_CA_FILE="{folder}/ca.pem"),
        "certificate_unusable",
    ),
    fault(
        "certificates of the directory",
        setting(FAIRSHARE_LDAP_CA_FILE="{folder}/nowhere.pem"),
        "certificate_unusable",
    ),
    fault("command", setting(FAIRSHARE_COLLECT_COMMANDS="{folder}/nowhere/sacct"), "command_missing"),
    fault("folder of usage", setting(FAIRSHARE_COLLECT_FOLDERS="{folder}/nowhere"), "folder_missing"),
    fault("folder of secrets", setting(FAIRSHARE_SECRETS_DIR="{folder}/nowhere"), "secrets_missing"),
    fault("a secret that others read", file("token", mode=0o644, FAIRSHARE_SECRETS_DIR="{folder}"), "secret_open"),
    fault("open targets", setting(FAIRSHARE_OUTBOUND_ALLOW_FILE="{folder}/nowhere"), "settings_refused"),
    fault("folder of backups", setting(FAIRSHARE_BACKUP_DIR="/proc/backups"), "backup_fails"),
    fault(
        "recipient of backups",
        setting(FAIRSHARE_BACKUP_DIR="{folder}", FAIRSHARE_BACKUP_RECIPIENT="age1nonsense"),
        "backup_fails",
    ),
    fault("no address of the site", setting(FAIRSHARE_URL=""), "url_missing"),
    fault("plain http", setting(FAIRSHARE_URL="http://fairshare.example"), "url_not_https"),
    fault("host of the address", setting(FAIRSHARE_ALLOWED_HOSTS="other.example"), "url_host_refused"),
    fault("broker", setting(CELERY_BROKER_URL="redis://127.0.0.1:{closed}/0"), "broker_away", "processes_differ"),
    fault("database", setting(DATABASE_URL="postgres://x:y@127.0.0.1:{closed}/x"), "database_away"),
    # other settings
    fault("unknown name", setting(FAIRSHARE_TICKS_S="60"), "settings_refused"),
    fault("uncounted proxy", setting(FAIRSHARE_PROXY_COUNT="0"), "accounts.W001"),
    fault("origin without scheme", setting(FAIRSHARE_TRUSTED_ORIGINS="fairshare.example"), "4_0.E001"),
    fault("other key", setting(SECRET_KEY="another one, " * 6), "processes_differ"),
    fault("weak key", setting(SECRET_KEY="short"), "processes_differ", "security.W009"),
    fault("other period", setting(FAIRSHARE_TICK_S="17"), "processes_differ"),
    # processes
    fault("no worker", stopped("worker"), "queue_unserved"),
    fault("no outgoing worker", stopped("outgoing"), "queue_unserved"),
    fault("no beat", stopped("beat"), "beat_missing"),
    fault(
        "process of another release",
        rows(PROCESS.format(shared='shared || \'{"release": "0"}\'', ahead=0), undone=GONE),
        "processes_differ",
    ),
    fault("clock of a host", rows(PROCESS.format(shared="shared", ahead=30), undone=GONE), "clock_differs"),
    # data
    fault("tampered day", wrong_day, "series_differs"),
    fault(
        "changed audit row",
        rows(
            "UPDATE accounts_auditevent SET actor_name = actor_name || '!' WHERE id = 2",
            undone=("UPDATE accounts_auditevent SET actor_name = rtrim(actor_name, '!') WHERE id = 2",),
        ),
        "audit_broken",
    ),
    fault("damaged snapshot", damaged_snapshot, "damaged_snapshot"),
    fault(
        "old snapshot",
        rows(
            "UPDATE priorities_snapshot SET computed_at = computed_at - interval '9 h'",
            undone=("UPDATE priorities_snapshot SET computed_at = computed_at + interval '9 h'",),
        ),
        "old_snapshot",
    ),
    fault(
        "late source",
        rows(
            "UPDATE usage_source SET expected_every_s = 1, last_received_at = now() - interval '1 hour',"
            " created_at = now() - interval '1 day'",
            undone=("UPDATE usage_source SET expected_every_s = NULL, last_received_at = now()",),
        ),
        "late_source",
    ),
    fault("half-written backup", half_written_backup, "abandoned_backups"),
    fault("interrupted restore", interrupted_restore, "fairshare.E006"),
    # database
    fault(
        "newer database",
        rows(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '9999_later', now())",
            undone=("DELETE FROM django_migrations WHERE name = '9999_later'",),
        ),
        "fairshare.E002",
    ),
    fault(
        "invalid index",
        rows(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'runs_run_due'::regclass",
            undone=("UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'runs_run_due'::regclass",),
        ),
        "invalid_index",
    ),
    fault(
        "table without statistics",
        rows(
            "CREATE TABLE loaded AS SELECT n, repeat('x', 100) AS note FROM generate_series(1, 20000) AS n",
            undone=("DROP TABLE loaded",),
        ),
        "missing_statistics",
    ),
    fault(
        "jumped clock",
        rows(
            "UPDATE accounts_clockmark SET at = at - interval '5 h', ahead_since = now(), ahead_at = now()",
            undone=("UPDATE accounts_clockmark SET at = now(), ahead_since = NULL, ahead_at = NULL",),
        ),
        "clock_jumped",
    ),
]


@pytest.fixture(scope="module")
def site(first_start: FirstStart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:  # noqa: F811
    """Priorities and days of a small site are there, and nothing waits."""
    stack = Stack(like=first_start.var, settings=SETTINGS)
    try:
        stack.start(within_s=200.0)
        stack.run(FILLED)
        stack.manage("recompute", "grid")
        stack.manage("rebuild_series", "grid", "--wait")
        yield Site(stack, tmp_path_factory.mktemp("faults"))
        if stack.supervisor is not None and stack.supervisor.poll() is None:
            stack.signal(signal.SIGINT)
    finally:
        stack.remove()


def test_the_healthy_site_has_no_finding(site: Site) -> None:
    assert site.doctor({})[:2] == (0, set())


@pytest.mark.parametrize("planted", [pytest.param(each, id=each.what.replace(" ", "-")) for each in FAULTS])
def test_a_fault_is_named_and_nothing_else(site: Site, planted: Fault) -> None:
    with planted.plant(site) as settings:
        status, names, report = site.doctor(settings)
    assert (status, names) == (1, set(planted.names)), report


def test_the_site_is_well_whatever_was_planted_before(site: Site) -> None:
    assert site.doctor({})[:2] == (0, set())
