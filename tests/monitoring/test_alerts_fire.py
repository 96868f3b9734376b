"""Each shipped alert fires in a real Alertmanager by its real cause, alone, and resolves when the cause is gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.accounts.actor import COMMAND, SYSTEM
from apps.accounts.models import User
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.schedulers.share_listing import read_listing
from apps.contrib.schedulers.share_reports import store_shares
from apps.core.signing import SigningKey
from apps.federation import control
from apps.federation.models import Mount, Subscription
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.recompute_runs import queue_recompute
from apps.priorities.models import Snapshot
from apps.priorities.recompute import pipeline
from apps.priorities.serving import shared_files, store
from apps.series.models import Series
from apps.usage.models import Source
from apps.usage.services import NewSource, make_source
from tests.contrib.notices.notices_site import give_core_hours
from tests.contrib.schedulers.test_shares import rows
from tests.federation.other_side import KEY, P1, OtherFeed, OtherSide, projects
from tests.mail_server import mail_server
from tests.monitoring.conftest import Service, Web
from tests.monitoring.daemons import Watchers
from tests.small_site import Site, push, record

pytestmark = [pytest.mark.deep, pytest.mark.django_db(transaction=True), pytest.mark.timeout(420)]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
Watched = Callable[[], AbstractContextManager[Watchers]]


def test_alerts_about_background_work(
    computed_site: Site, service: Callable[[], Service], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = service()

    def use() -> None:
        """Usage is new, so that the next recompute has something to compute."""
        computed_site.at = works.at
        push(computed_site, [record(f"job-{works.at}", "alice", "physics", 1, at=works.at)])

    with watched() as watch:
        watch.expect()

        queue_recompute(computed_site.policy, at=works.at)
        works.go_on(30 * MINUTE, workers=False)
        watch.expect("FairshareWorkersSilent", "FairsharePrioritiesOld", "FairshareRunsWait")
        works.go_on(MINUTE)
        watch.expect()

        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "compute", fails)
            use()
            for _attempt in range(8):
                works.go_on(MINUTE)
            watch.expect("FairshareRecomputeFailed")
        for _attempt in range(8):
            works.go_on(MINUTE)
        watch.expect()

        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "compute", takes(61, works, pipeline.compute))
            use()
            works.go_on(MINUTE)
        watch.expect("FairshareRecomputeSlow")
        use()
        works.go_on(2 * MINUTE)
        watch.expect()

        damage(Snapshot.objects.filter(is_live=True).latest("pk"))
        watch.expect("FairshareSnapshotDamaged")
        works.go_on(MINUTE)
        watch.expect()


def fails(_inputs: Any) -> Any:
    raise RuntimeError("a defect")


def takes(seconds: int, works: Service, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def slow(inputs: Any) -> Any:
        works.at += timedelta(seconds=seconds)
        works.monkeypatch.setenv("FAIRSHARE_CLOCK", works.at.isoformat())
        return compute(inputs)

    return slow


def damage(snapshot: Snapshot) -> None:
    """A bit of its stored bytes, before a process that starts now reads it."""
    data = bytearray(snapshot.data)
    data[len(data) // 2] ^= 1
    Snapshot.objects.filter(pk=snapshot.pk).update(data=bytes(data))
    store.forget()
    shutil.rmtree(shared_files.directory())  # of the host: they have what the row held before


def test_the_alert_about_mail(
    computed_site: Site, service: Callable[[], Service], watched: Watched, settings: Any
) -> None:
    settings.EMAIL_BACKEND, settings.FAIRSHARE_EMAIL = "apps.core.mail_server.EmailBackend", "smtp"
    User.objects.filter(username="pia").update(email="pia@example.org")
    works = service()
    with watched() as watch, mail_server() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        watch.expect()
        server.stop()
        give_core_hours(computed_site, ends_on=(works.at + 20 * DAY).date())
        works.go_on(MINUTE)
        watch.expect("FairshareMailFailing")
        server.start()
        works.go_on(10 * MINUTE)
        watch.expect()
        assert len(server.to("pia")) == 1


def test_alerts_about_usage(
    computed_site: Site, service: Callable[[], Service], watched: Watched, settings: Any, tmp_path: Path
) -> None:
    site = computed_site
    Source.objects.update(expected_every_s=3600)
    works = service()

    def send(*records: dict[str, Any]) -> None:
        site.at = works.at
        push(site, list(records))
        works.go_on(MINUTE)

    def job(number: str, user: str, group: str, hours: int) -> dict[str, Any]:
        return record(number, user, group, hours, at=works.at)

    with watched() as watch:
        watch.expect()

        works.go_on(3 * HOUR)
        watch.expect("FairshareSourceLate")
        send(job("late", "bob", "physics", 1))
        watch.expect()

        bad = {**job("bad", "alice", "physics", 1), "end": "2000-01-01T00:00:00Z"}
        send(bad)
        watch.expect("FairshareRecordsRejected")
        places = [("alice", "physics")] * 2 + [("bob", "physics")] + [("carol", "biology")] * 2  # as their targets are
        send(*(job(f"good-{n}", *places[n % 5], 1) for n in range(40)))
        watch.expect()

        send(job("stranger", "stranger", "", 10))
        watch.expect("FairshareUnmappedUsage")
        place = Rule(kind="glob", target_uid=site.uid("/biology/carol"), user_pattern="stranger")
        rest = Rule(kind="glob", target_uid=site.uid("/"), group_pattern="*", suffix="/{group}/{user}")
        set_rules(policy_slug="grid", rules=[place, rest], at=works.at, actor=SYSTEM)
        works.go_on(MINUTE)
        watch.expect()

        send(job("alone", "alice", "physics", 500))
        watch.expect("FairshareFarFromTargets")
        send(job("bob", "bob", "physics", 250), job("carol", "carol", "biology", 500))
        watch.expect()


def test_alerts_about_collected_sources(
    computed_site: Site, service: Callable[[], Service], watched: Watched, settings: Any, tmp_path: Path
) -> None:
    works, spool = service(), tmp_path / "spool"
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    with watched() as watch:
        watch.expect()
        source = make_source(NewSource(slug="watched", name="Watched"), at=works.at, actor=COMMAND)
        source.kind, source.collect_every_s, source.collect_due_at = Source.Kind.DIRECTORY, 300, works.at
        source.collecting = {
            "folder": str(spool), "pattern": "*", "files": "whole", "format": "auto", "settle_s": 60
        }  # fmt: skip
        source.save()
        works.go_on(MINUTE)
        watch.expect("FairshareSourceNeverCollected", "FairshareCollectFailing")
        spool.mkdir()
        works.go_on(5 * MINUTE)
        watch.expect()
        spool.rmdir()
        works.go_on(5 * MINUTE)
        watch.expect("FairshareCollectFailing")
        spool.mkdir()
        works.go_on(5 * MINUTE)
        watch.expect()


def test_the_alert_about_shares_of_a_scheduler(
    computed_site: Site, service: Callable[[], Service], watched: Watched
) -> None:
    works = service()
    given = {"mode": "on", "namespace": "a", "carries": "shares"}
    scheduler = connect_scheduler(policy_slug="grid", name="c1", settings=given, at=works.at, actor=SYSTEM)

    def list_shares(**changed: str) -> None:
        listed = read_listing({"cluster": "demo", "rows": rows(**changed)})
        store_shares(scheduler, listed, {}, works.at)

    with watched() as watch:
        watch.expect()
        list_shares()
        watch.expect()
        list_shares(alice="99")
        watch.expect("FairshareSharesChangedByHand")
        list_shares()
        watch.expect()


def test_the_alert_about_the_daily_series(
    computed_site: Site, service: Callable[[], Service], watched: Watched
) -> None:
    """The one rule that reads Prometheus' own clock: the days are of today, whatever the service's clock says."""
    service()
    today = datetime.now(UTC).date()
    Series.objects.update_or_create(policy=computed_site.policy, defaults={"through_on": today})
    with watched() as watch:
        watch.expect()
        Series.objects.update(through_on=today - 4 * DAY)
        watch.expect("FairshareSeriesBehind")
        Series.objects.update(through_on=today)
        watch.expect()


def test_alerts_about_peers(
    subscription: Subscription,
    mounted: Mount,
    vo: OtherSide,
    feed: OtherFeed,
    service: Callable[[], Service],
    watched: Watched,
) -> None:
    works = service()

    def publish(key: SigningKey) -> None:
        for side in (vo, feed):
            side.key, side.status, side.at = key, 200, works.at
        vo.publish(projects(p1=51))
        feed.tell({works.at.replace(minute=0) - 2 * HOUR: {P1: 60.0}})

    publish(KEY)
    works.go_on(10 * MINUTE)
    with watched() as watch:
        watch.expect()

        vo.status = feed.status = 503
        works.go_on(2 * DAY)
        watch.expect("FairsharePeerStale")
        publish(KEY)
        works.go_on(2 * HOUR)
        watch.expect()

        other = SigningKey(bytes(range(1, 33)))
        publish(other)
        works.go_on(10 * MINUTE)
        watch.expect("FairsharePeerNeedsALook")
        given: dict[str, Any] = {
            "fingerprint": other.public.fingerprint,
            "reason": "Compared.",
            "at": works.at,
            "actor": COMMAND,
        }
        control.trust_key(kind="mount", remote_id=mounted.pk, **given)
        control.trust_key(kind="subscription", remote_id=subscription.pk, **given)
        works.go_on(10 * MINUTE)
        watch.expect()


def test_alerts_about_the_infrastructure(
    computed_site: Site, service: Callable[[], Service], watched: Watched, web: Web
) -> None:
    service()
    with watched() as watch:
        watch.expect()
        with no_connections():
            watch.expect("FairshareDatabaseAway")
        watch.expect()
        web.stop()
        watch.expect("FairshareDown")
        web.start()
        watch.expect()


@contextmanager
def no_connections() -> Iterator[None]:
    """The server of the database refuses them, and ends those that it has."""
    given = connection.settings_dict
    name = psycopg.sql.Identifier(given["NAME"])
    allow = psycopg.sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    named = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
    with psycopg.connect(
        dbname="postgres", autocommit=True, **{key: value for key, value in named.items() if value}
    ) as server:
        server.execute(allow.format(name, psycopg.sql.SQL("false")))
        try:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [given["NAME"]])
            yield
        finally:
            server.execute(allow.format(name, psycopg.sql.SQL("true")))
            connection.close()
