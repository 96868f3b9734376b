"""`manage.py doctor` names planted faults with their remedies, and ends whatever hangs."""

from __future__ import annotations

import io
import json
import shutil
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from apps.accounts.models import ClockMark
from apps.cli.doctor import examination, outside
from apps.cli.doctor.check import Check, Finding
from apps.cli.doctor.checks import all_checks
from apps.cli.stack.restore_check import UNFINISHED
from apps.core import clock
from apps.federation.documents.site_keys import load_keys
from apps.federation.models import Mount, Remote
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import shared_files, store
from apps.runs import presence
from apps.runs.models import Run, SiteProcess, WorkerContact
from apps.runs.queues import FEDERATION, QUEUES
from apps.series.storage_growth import Holding
from apps.usage.models import Source
from tests.closed_port import CLOSED_PORT
from tests.commands import run_manage
from tests.faults.conftest import FirstStart, first_start  # noqa: F401 - fixture
from tests.faults.stack import Stack
from tests.instants import AT
from tests.runs.test_real_broker import Redis, redis  # noqa: F401 - fixture
from tests.small_site import Site

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
SMTP = "apps.core.mail_server.EmailBackend"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    presence.fingerprints.cache_clear()
    yield
    presence.fingerprints.cache_clear()


@pytest.fixture
def processes() -> None:
    """All processes of a site live."""
    presence.report("web")
    presence.report("worker", queues=set(QUEUES) - {FEDERATION})
    presence.report("outgoing", queues=[FEDERATION])
    presence.report("beat")


def report(*arguments: str) -> tuple[int, dict[str, Any]]:
    out = io.StringIO()
    try:
        call_command("doctor", "--json", *arguments, stdout=out)
    except SystemExit as stop:
        return int(str(stop.code)), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())


def findings(section: str) -> dict[str, dict[str, str]]:
    """By name; the last one of each."""
    return {each["name"]: each for each in all_findings(section)}


def all_findings(section: str) -> list[dict[str, str]]:
    status, answer = report("--only", section)
    listed = answer["sections"][section]
    assert listed["unchecked"] == ""
    assert status == int(any(each["level"] != "info" for each in listed["findings"]))
    found: list[dict[str, str]] = listed["findings"]
    return found


@dataclass
class Place:
    """What a fault is planted in."""

    site: Site
    settings: Any
    patch: pytest.MonkeyPatch
    folder: Path

    def sql(self, *statements: str) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def sign_in_without_secret(place: Place) -> None:
    place.settings.FAIRSHARE_OIDC_ISSUER = "https://issuer.example"


def debug_in_production(place: Place) -> None:
    place.settings.PRODUCTION = place.settings.DEBUG = True


def interrupted_restore(place: Place) -> None:
    place.settings.VAR = place.folder
    (place.folder / UNFINISHED).touch()


def missing_migration(place: Place) -> None:
    place.sql("DELETE FROM django_migrations WHERE app = 'priorities'")


def newer_database(place: Place) -> None:
    place.sql("INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '9999_later', now())")


def other_process(**values: Any) -> None:
    SiteProcess.objects.filter(role="worker").update(holder="elsewhere:1:2:3", host="node2", **values)


def worker_of_another_release(place: Place) -> None:
    other_process(shared={**presence.fingerprints(), "release": "0" * 16})


def worker_with_other_keys(place: Place) -> None:
    other_process(shared={**presence.fingerprints(), "SECRET_KEY": ["0" * 24]})


def full_disk(place: Place) -> None:
    place.patch.setattr("apps.core.disk_space._LEAST_FREE_DISK_BYTES", 1 << 60)


def fast_growth(place: Place) -> None:
    growth = Holding("usage records", 1, 1, 1, 1 << 60)
    place.patch.setattr("apps.cli.doctor.instance.list_holdings", lambda **_: [growth])


def wrong_clock(place: Place) -> None:
    other_process(clock_ahead_s=30.0)


def clocks_apart(place: Place) -> None:
    other_process(clock_ahead_s=1.5)
    SiteProcess.objects.filter(role="outgoing").update(holder="elsewhere:1:2:4", host="node3", clock_ahead_s=-1.5)


def jumped_clock(place: Place) -> None:
    ClockMark.objects.create(pk=ClockMark.ONLY, at=AT - 5 * HOUR, ahead_since=AT, ahead_at=AT)


def dead_rows(place: Place) -> None:
    place.sql(
        "CREATE TABLE bloated AS SELECT n FROM generate_series(1, 40000) AS n",
        "DELETE FROM bloated",
        "SELECT pg_stat_force_next_flush()",
    )
    connection.close()


def never_analysed(place: Place) -> None:
    place.sql("CREATE TABLE loaded AS SELECT n, repeat('x', 100) AS note FROM generate_series(1, 20000) AS n")


def invalid_index(place: Place) -> None:
    place.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'runs_run_due'::regclass")


def few_connections(place: Place) -> None:
    place.sql(f'ALTER DATABASE "{connection.settings_dict["NAME"]}" CONNECTION LIMIT 1')


def silent_workers(place: Place) -> None:
    WorkerContact.objects.create(pk=WorkerContact.ANY, at=AT - HOUR)


def silent_beat(place: Place) -> None:
    every = IntervalSchedule.objects.create(every=10, period="seconds")
    PeriodicTask.objects.create(name="sweep-runs", task="x", interval=every, last_run_at=AT - HOUR)


def no_worker(place: Place) -> None:
    SiteProcess.objects.filter(role="worker").delete()


def no_beat(place: Place) -> None:
    SiteProcess.objects.filter(role="beat").delete()


def late_source(place: Place) -> None:
    Source.objects.update(expected_every_s=3600, last_received_at=AT - 3 * HOUR)


def never_collected(place: Place) -> None:
    collected = {"kind": "command", "collect_every_s": 60, "collected_at": None, "last_received_at": None}
    Source.objects.update(**collected, created_at=AT - HOUR)


def failing_collection(place: Place) -> None:
    Source.objects.update(kind="command", collect_every_s=3600, collected_at=AT, collect_error="sacct: no such host")


def mount(site: Site, **values: Any) -> None:
    uid = load_tree(site.policy).uuid(1)
    made = {"url": "https://vo.example/p", "issuer": "vo.example", "publication": "grid", "good_at": AT, "made_at": AT}
    Mount.objects.create(policy=site.policy, entry_uid=uid, fingerprint="0" * 64, **{**made, **values})


def blocked_peer(place: Place) -> None:
    mount(place.site, state=Remote.State.BLOCKED, error_code="forked")


def stale_peer(place: Place) -> None:
    mount(place.site, good_at=AT - 48 * HOUR)


def expired_peer(place: Place) -> None:
    mount(place.site, expires_at=AT - HOUR)


def replaced_key(place: Place) -> None:
    load_keys(at=AT)
    place.settings.SECRET_KEY = "another one, of fifty characters at least, as it should be"


def old_snapshot(place: Place) -> None:
    place.patch.setenv("FAIRSHARE_CLOCK", (AT + 2 * HOUR).isoformat())


def damaged_snapshot(place: Place) -> None:
    newest = Snapshot.objects.order_by("-pk")[0]
    Snapshot.objects.filter(pk=newest.pk).update(data=b"x" + bytes(newest.data))
    store.forget()
    shutil.rmtree(shared_files.directory(), ignore_errors=True)


def failed_recompute(place: Place) -> None:
    run = queue_recompute(place.site.policy, at=AT)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, finished_at=AT, error="a package failed")


def make_scheduler(site: Site, **values: Any) -> Any:
    from apps.contrib.schedulers.models import Scheduler

    made = {"name": "slurm", "kind": "slurm", "knob": "sitefactor", "mode": "on", "created_at": AT, "changed_at": AT}
    return Scheduler.objects.create(policy=site.policy, **{**made, **values})


def silent_agent(place: Place) -> None:
    make_scheduler(place.site, changed_at=AT - HOUR)


def frozen_agent(place: Place) -> None:
    from apps.contrib.schedulers.models import AgentPass

    passed = {"uid": uuid.uuid4(), "body_sha256": "0" * 64, "agent": "1", "host": "head", "mode": "on"}
    times = {"received_at": AT, "started_at": AT, "ended_at": AT}
    AgentPass.objects.create(
        scheduler=make_scheduler(place.site), orders_revision=1, frozen_code="snapshot_too_old", **passed, **times
    )


def failing_mail(place: Place) -> None:
    from apps.contrib.notices.models import Mail

    place.settings.FAIRSHARE_EMAIL = "smtp"
    given = {
        "user": place.site.pia,
        "period": "x",
        "due_at": AT,
        "created_at": AT,
        "attempts": 1,
        "error": "SMTPServerDisconnected",
    }
    Mail.objects.create(state=Mail.State.WAITING, **given)


def setting(**values: Any) -> Callable[[Place], None]:
    """A fault of settings. A value may be a function of the place."""

    def plant(place: Place) -> None:
        for name, value in values.items():
            setattr(place.settings, name, value(place) if callable(value) else value)

    plant.__name__ = "_".join(values).lower()
    return plant


def file_of(content: str, mode: int = 0o600) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        path = place.folder / "file"
        path.write_text(content)
        path.chmod(mode)
        return str(path)

    return make


def open_secret(place: Place) -> None:
    place.settings.FAIRSHARE_SECRETS_DIR = str(place.folder)
    (place.folder / "token").touch(0o644)


LOCAL = {"FAIRSHARE_LDAP_START_TLS": False, "FAIRSHARE_LDAP_PEOPLE": "ou=people"}
OUTSIDE: list[tuple[str, Callable[[Place], None], str, str]] = [
    (
        "outside",
        setting(FAIRSHARE_EMAIL="smtp", EMAIL_BACKEND=SMTP, EMAIL_HOST="127.0.0.1", EMAIL_PORT=CLOSED_PORT),
        "mail_unreachable",
        "FAIRSHARE_EMAIL_HOST",
    ),
    (
        "outside",
        setting(FAIRSHARE_LDAP_URL=f"ldap://127.0.0.1:{CLOSED_PORT}", **LOCAL),
        "directory_unreachable",
        "FAIRSHARE_LDAP_URL",
    ),
    (
        "outside",
        setting(FAIRSHARE_OIDC_ISSUER=f"http://127.0.0.1:{CLOSED_PORT}"),
        "issuer_unreachable",
        "FAIRSHARE_OIDC_ISSUER",
    ),
    (
        "outside",
        setting(FAIRSHARE_OUTBOUND_PROXY=f"http://user:word@127.0.0.1:{CLOSED_PORT}"),
        "proxy_unreachable",
        "FAIRSHARE_OUTBOUND_PROXY",
    ),
    (
        "outside",
        setting(FAIRSHARE_OUTBOUND_CA_FILE=file_of("no certificate")),
        "certificate_unusable",
        "_OUTBOUND_CA_FILE",
    ),
    ("outside", setting(FAIRSHARE_LDAP_CA_FILE="/nowhere/ca.pem"), "certificate_unusable", "FAIRSHARE_LDAP_CA_FILE"),
    (
        "outside",
        setting(FAIRSHARE_COLLECT_COMMANDS=["/nowhere/sacct"]),
        "command_missing",
        "FAIRSHARE_COLLECT_COMMANDS",
    ),
    (
        "outside",
        setting(FAIRSHARE_COLLECT_COMMANDS=lambda place: [file_of("")(place)]),
        "command_missing",
        "Install it",
    ),
    ("outside", setting(FAIRSHARE_COLLECT_FOLDERS=["/nowhere"]), "folder_missing", "FAIRSHARE_COLLECT_FOLDERS"),
    ("outside", setting(FAIRSHARE_SECRETS_DIR="/nowhere/secrets"), "secrets_missing", "FAIRSHARE_SECRETS_DIR"),
    ("outside", open_secret, "secret_open", "chmod 0600"),
    ("outside", setting(FAIRSHARE_OUTBOUND_ALLOW_FILE="/nowhere/allow"), "targets_unreadable", "Make it readable"),
    ("outside", setting(PRODUCTION=True, FAIRSHARE_URL=""), "url_missing", "https://"),
    ("outside", setting(PRODUCTION=True, FAIRSHARE_URL="http://localhost"), "url_not_https", "https://"),
    ("outside", setting(FAIRSHARE_URL="https://fairshare.example"), "url_host_refused", "fairshare.example"),
]
CORE: list[tuple[str, Callable[[Place], None], str, str]] = [
    ("settings", sign_in_without_secret, "accounts.E001", "docs/settings.md"),
    ("settings", debug_in_production, "security.W018", "docs/settings.md"),
    ("settings", interrupted_restore, "fairshare.E006", "Run it again"),
    ("versions", missing_migration, "pending_migrations", "serve prepare"),
    ("versions", newer_database, "fairshare.E002", "Run the version that made it"),
    ("versions", worker_of_another_release, "processes_differ", "docs/operate.md"),
    ("versions", worker_with_other_keys, "processes_differ", "docs/operate.md"),
    ("disk", full_disk, "full_disk", "Free room"),
    ("disk", fast_growth, "disk_fills", "manage.py storage"),
    ("clock", wrong_clock, "clock_differs", "chrony"),
    ("clock", clocks_apart, "clocks_of_hosts_differ", "chrony"),
    ("clock", jumped_clock, "clock_jumped", "Correct the clock"),
    ("database", dead_rows, "bloated_table", "VACUUM (ANALYZE) bloated;"),
    ("database", never_analysed, "missing_statistics", "ANALYZE loaded;"),
    ("database", invalid_index, "invalid_index", "REINDEX INDEX CONCURRENTLY runs_run_due;"),
    ("database", few_connections, "connections_short", "max_connections"),
    ("workers", silent_workers, "workers_silent", "logs of workers"),
    ("workers", silent_beat, "beat_silent", "logs of workers"),
    ("workers", no_worker, "queue_unserved", "manage.py serve worker -Q"),
    ("workers", no_beat, "beat_missing", "manage.py serve beat"),
    ("sources", late_source, "late_source", "manage.py collect_usage --source cluster-a"),
    ("sources", never_collected, "source_never_collected", "manage.py collect_usage --source cluster-a"),
    ("sources", failing_collection, "collection_failing", "manage.py collect_usage --source cluster-a"),
    ("peers", blocked_peer, "peer_blocked", "manage.py federation status"),
    ("peers", stale_peer, "peer_stale", "manage.py federation status"),
    ("peers", expired_peer, "peer_expired", "manage.py federation status"),
    ("peers", replaced_key, "signing_key_unreadable", "SECRET_KEY_FALLBACKS"),
    ("snapshots", old_snapshot, "old_snapshot", "manage.py recompute grid"),
    ("snapshots", damaged_snapshot, "damaged_snapshot", "manage.py recompute grid"),
    ("snapshots", failed_recompute, "recompute_failed", "manage.py recompute grid"),
]
OF_PLUGINS: list[tuple[str, Callable[[Place], None], str, str]] = [
    ("agents", silent_agent, "agent_silent", "manage.py scheduler show slurm"),
    ("agents", frozen_agent, "agent_frozen", "manage.py scheduler resume slurm"),
    ("mail", failing_mail, "mail_failing", "mail server"),
]


@pytest.fixture
def place(
    computed_site: Site, processes: None, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Place]:
    store.poll()
    yield Place(computed_site, settings, monkeypatch, tmp_path)
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{connection.settings_dict["NAME"]}" CONNECTION LIMIT -1')


@pytest.mark.parametrize(
    ("section", "plant", "name", "remedy"),
    [
        *(pytest.param(*each, id=each[1].__name__) for each in CORE),
        *(pytest.param(*each, id=f"{each[2]}-{nth}") for nth, each in enumerate(OUTSIDE)),
        *(pytest.param(*each, id=each[1].__name__, marks=pytest.mark.product) for each in OF_PLUGINS),
    ],
)
def test_a_planted_fault_is_found_by_name_with_its_remedy(
    place: Place, section: str, plant: Callable[[Place], None], name: str, remedy: str
) -> None:
    def found() -> set[str]:
        """Levels of what says so; other tables of this database may lack statistics, too."""
        return {each["level"] for each in all_findings(section) if each["name"] == name and remedy in each["remedy"]}

    assert found() == set()
    plant(place)
    assert found() in ({"warn"}, {"bad"})


HEALTHY = {
    "PRODUCTION": True,
    "ALLOWED_HOSTS": ["fairshare.example"],
    "FAIRSHARE_URL": "https://fairshare.example",
    "AXES_IPWARE_PROXY_COUNT": 1,
    "SECRET_KEY": "k4" * 30 + "longer than fifty characters, and not a default",
    "SESSION_COOKIE_SECURE": True,
    "CSRF_COOKIE_SECURE": True,
    "SECURE_SSL_REDIRECT": True,
    "SECURE_HSTS_SECONDS": 31_536_000,
}


def test_a_healthy_production_site_has_no_finding(place: Place) -> None:
    """Of all sections but that of the suite's own database server, which is none of production."""
    for name, value in HEALTHY.items():
        setattr(place.settings, name, value)
    presence.fingerprints.cache_clear()
    SiteProcess.objects.update(shared=presence.fingerprints())
    Policy.objects.filter(pk=place.site.other.pk).update(archived_at=AT)
    sections = [name for name in all_checks() if name not in ("database", "clock")]
    status, answer = report(*(part for name in sections for part in ("--only", name)))
    assert {name: listed["findings"] for name, listed in answer["sections"].items() if listed["findings"]} == {}
    assert status == 0


def test_a_server_that_never_answers_is_named_in_time(place: Place) -> None:
    """Mail, directory and issuer lead to a port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        setting(
            FAIRSHARE_EMAIL="smtp",
            EMAIL_BACKEND=SMTP,
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=silent.getsockname()[1],
            FAIRSHARE_LDAP_URL=f"ldap://{where}",
            FAIRSHARE_OIDC_ISSUER=f"http://{where}",
            **LOCAL,
        )(place)
        place.patch.setattr(outside, "TRY_S", 0.3)
        place.patch.setattr(outside, "_ALL_S", 0.6)
        found = {each["name"] for each in all_findings("outside")}
    assert {"mail_unreachable", "issuer_unreachable"} <= found
    assert found & {"directory_unreachable", "no_answer"}


def test_other_keys_are_worse_than_another_release(place: Place) -> None:
    worker_of_another_release(place)
    assert findings("versions")["processes_differ"]["level"] == "warn"
    worker_with_other_keys(place)
    assert findings("versions")["processes_differ"]["level"] == "bad"


def test_a_policy_without_priorities_is_named(place: Place) -> None:
    assert "recompute other" in findings("snapshots")["no_snapshot"]["remedy"]


def test_the_clock_of_this_host_is_compared_with_the_databases(place: Place) -> None:
    place.patch.delenv("FAIRSHARE_CLOCK")
    assert "clock_differs" not in findings("clock")
    now = clock.now
    place.patch.setattr(clock, "now", lambda: now() - timedelta(seconds=90))
    assert "behind the database's" in findings("clock")["clock_differs"]["message"]


def test_a_long_transaction_is_named_with_the_statement_that_ends_it(place: Place) -> None:
    values = connection.settings_dict
    place.settings.FAIRSHARE_STALL_S = 0
    assert "long_transaction" not in findings("database")
    connection.close()
    address = {"host": values["HOST"], "port": values["PORT"], "user": values["USER"], "dbname": values["NAME"]}
    with psycopg.connect(**address, application_name="forgotten") as session:
        session.execute("SELECT 1")
        found = findings("database")["long_transaction"]
        assert "(forgotten)" in found["message"]
        assert f"pg_terminate_backend({session.info.backend_pid})" in found["remedy"]


@pytest.mark.deep
def test_a_broker_that_is_gone_or_hangs_is_named(redis: Redis) -> None:  # noqa: F811 - the value of the fixture
    assert findings("broker") == {}
    redis.process.send_signal(signal.SIGSTOP)
    begun_s = time.monotonic()
    assert "CELERY_BROKER_URL" in findings("broker")["broker_away"]["remedy"]
    assert time.monotonic() - begun_s < 30
    redis.stop()
    assert findings("broker")["broker_away"]["level"] == "bad"


def test_autovacuum_that_is_off_is_named(place: Place) -> None:
    """As on the suite's own server."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW autovacuum")
        (state,) = cursor.fetchone()
    assert ("autovacuum_off" in findings("database")) == (state == "off")


def test_the_report_has_all_sections_in_one_shape(place: Place) -> None:
    status, answer = report()
    assert status == 1
    assert set(answer) == {"status", "at", "release", "sections"}
    assert answer["status"] == "findings"
    assert list(answer["sections"]) == list(all_checks())
    for section in answer["sections"].values():
        assert set(section) == {"facts", "unchecked", "findings"}
        assert section["facts"]
        for finding in section["findings"]:
            assert set(finding) == {"name", "level", "message", "remedy"}
            assert finding["level"] in ("info", "warn", "bad")
            assert all(finding.values())
    facts = " ".join(answer["sections"]["database"]["facts"])
    assert "pg_stat_statements isn't there" in facts


def test_the_text_fits_one_screen_and_names_each_finding(place: Place) -> None:
    late_source(place)
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", stdout=out)
    lines = out.getvalue().splitlines()
    assert len(lines) < 60
    assert any(line.startswith("warn late_source: The source cluster-a is late") for line in lines)
    assert lines[-1].endswith("attention.")


def test_a_check_that_hangs_or_breaks_hides_nothing_of_the_others(db: None) -> None:
    released = threading.Event()

    def hang(at: Any) -> list[str]:
        released.wait()
        return []

    def fail(at: Any) -> list[str]:
        raise ValueError("broken")

    good = Finding("planted", "warn", "It is so.", "Do that.")
    checks = {"hangs": Check(hang), "fails": Check(fail), "works": Check(lambda at: [good])}
    begun_s = time.monotonic()
    found = examination.examine(checks, at=AT, check_s=1.0)
    assert time.monotonic() - begun_s < 10
    assert [section.unchecked for section in found.sections] == ["no answer within 1 s", "ValueError: broken", ""]
    assert [finding.name for finding in found.findings] == ["check_unfinished", "check_unfinished", "planted"]
    released.set()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(at: Any) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(600)")
        return []

    monkeypatch.setattr(examination, "_STATEMENT_S", 0.2)
    (section,) = examination.examine({"sleeps": Check(sleep)}, at=AT).sections
    assert "statement timeout" in section.unchecked


Environment = Callable[..., dict[str, str]]


def run_doctor(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    done = run_manage("doctor", "--json", *arguments, env=environment, text=True)
    assert "Traceback" not in done.stderr
    names = {each["name"]: each for part in json.loads(done.stdout)["sections"].values() for each in part["findings"]}
    return done.returncode, names, done.stdout + done.stderr


@pytest.mark.deep
def test_a_silent_database_and_no_broker_are_named_and_no_secret_is_printed(
    environment_without: Environment, tmp_path: Path
) -> None:
    """The server accepts connections and never answers, as one whose disk hangs."""
    secrets = ("datapass", "brokerpass", "k" * 50, "pepperpepper", "pseudopseudo")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        environment = {
            **environment_without(),
            "FAIRSHARE_VAR": str(tmp_path / "var"),
            "DATABASE_URL": f"postgres://fairshare:{secrets[0]}@127.0.0.1:{port}/fairshare",
            "CELERY_BROKER_URL": f"redis://:{secrets[1]}@127.0.0.1:1/0",
            "SECRET_KEY": secrets[2],
            "FAIRSHARE_TOKEN_PEPPERS": secrets[3],
            "FAIRSHARE_PSEUDONYM_KEY": secrets[4],
        }
        begun_s = time.monotonic()
        status, found, printed = run_doctor(environment)
        assert time.monotonic() - begun_s < 90
    assert status == 1
    assert "DATABASE_URL" in found["database_away"]["remedy"]
    assert {"database_away", "broker_away"} <= set(found)
    assert [secret for secret in secrets if secret in printed] == []


def test_settings_that_refuse_to_start_are_a_finding(environment_without: Environment, tmp_path: Path) -> None:
    config = tmp_path / "fairshare.conf"
    config.write_text("FAIRSHARE_TICKS=5\n")
    environment = {**environment_without(), "FAIRSHARE_VAR": str(tmp_path / "var"), "FAIRSHARE_CONFIG": str(config)}
    status, found, _ = run_doctor(environment)
    assert (status, set(found)) == (1, {"settings_refused"})
    assert "FAIRSHARE_TICKS is no setting" in found["settings_refused"]["message"]
    assert "FAIRSHARE_CONFIG" in found["settings_refused"]["remedy"]


PRODUCTION = {
    "FAIRSHARE_PRODUCTION": "1",
    "FAIRSHARE_URL": "https://fairshare.example",
    "FAIRSHARE_ALLOWED_HOSTS": "fairshare.example,127.0.0.1",
    "FAIRSHARE_PROXY_COUNT": "1",
    "FAIRSHARE_BEHIND_TLS_PROXY": "1",
}


@pytest.mark.deep
@pytest.mark.timeout(600)  # a stack starts within PATIENCE_S
def test_a_running_instance_in_production_is_well(first_start: FirstStart) -> None:  # noqa: F811 - the fixture's value
    stack = Stack(like=first_start.var, settings=PRODUCTION)
    try:
        stack.start()
        text = stack.manage("doctor")
        assert text.endswith("All is well.\n"), text
        answer = json.loads(stack.manage("doctor", "--json"))
        assert answer["status"] == "well"
        assert [name for name, section in answer["sections"].items() if section["unchecked"]] == []
    finally:
        if stack.supervisor is not None and stack.supervisor.poll() is None:
            stack.signal(signal.SIGINT)
        stack.remove()
