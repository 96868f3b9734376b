"""A site that sends usage and is restored to older states now and then, and two others that read it by HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db.models import Model
from django.test import Client, override_settings

from apps.accounts.actor import COMMAND
from apps.federation.documents.site_keys import load_keys
from apps.federation.models import FeedHour, FeedMark, FeedRunning, Fetch, Mount, Subscription, UsageFeed
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.federation.usage_feeds.usage_ingest import request_for
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from apps.usage.records.peer_sums import make_peer_source
from tests.federation.fetches import Counted, cores_running, counted, look_at
from tests.federation.other_side import OtherSide, serving
from tests.federation.usage_feeds.feed_site import HOUR, Teller, make_teller
from tests.federation.worlds import as_site
from tests.instants import AT

Row = dict[str, Any]
ISSUER, SITE = "site-b.example", "site-b"
NOWHERE = OtherSide(at=AT, port=1)  # in a world: nothing is fetched before a test has a server
GROUPS = {"anna": "P-A1", "bert": "P-A1", "carl": "P-A2"}


@dataclass(frozen=True)
class Job:
    """cpus 0: there is no such job. ended_h: hours before AT, None while it runs."""

    user: str = "anna"
    cpus: float = 0.0
    ended_h: int | None = 1


@dataclass(frozen=True)
class Backup:
    """What a dump of the database has of the feed, and which jobs it knew. line: what each number stood for."""

    feed: Row
    hours: list[Row]
    marks: list[Row]
    running: list[Row]
    jobs: dict[str, Job]
    line: dict[int, object]


@dataclass
class Follower:
    """A subscription, and the meaning of the newest state that it accepted or knows of."""

    row: Subscription
    knows: object = None

    @property
    def has_all(self) -> bool:
        return self.row.number > 0 and not self.row.is_left_behind


@dataclass
class RestoredSite:
    """One database in three roles. `line` and `Follower.knows` tell by other means than marks who is of which line."""

    side: OtherSide
    settings: LazySettings
    monkeypatch: pytest.MonkeyPatch
    teller: Teller
    followers: list[Follower] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    line: dict[int, object] = field(default_factory=dict)
    _revision: int = 0

    def has(self, name: str, job: Job) -> None:
        """From now on the job is this one, whatever it was."""
        if self.jobs.get(name, Job()) == job:
            return
        self._revision += 1
        before, self.jobs[name] = self.jobs.get(name, Job()), job
        shown = job if job.cpus else before
        values: Row = {"cpus": shown.cpus, "revision": self._revision, "submit_at": AT - 99 * HOUR}
        if shown.ended_h is None:
            values |= {"state": "running", "start_at": AT - HOUR / 2, "end_at": None}
        else:
            values["ago_h"] = shown.ended_h
        if not job.cpus:
            values["state"] = "withdrawn"
        self.teller.job(name, shown.user, GROUPS[shown.user], **values)

    def back_up(self) -> Backup:
        (feed,) = map(_row, UsageFeed.objects.all())
        hours, marks, running = (
            [_row(one) for one in table.objects.all()] for table in (FeedHour, FeedMark, FeedRunning)
        )
        return Backup(feed, hours, marks, running, dict(self.jobs), dict(self.line))

    def restore(self, backup: Backup) -> None:
        UsageFeed.objects.update(**{name: value for name, value in backup.feed.items() if name != "id"})
        _replace(FeedHour, backup.hours)
        _replace(FeedMark, backup.marks)
        _replace(FeedRunning, backup.running)
        for name in list(self.jobs):
            self.has(name, backup.jobs.get(name, Job()))
        self.line = dict(backup.line)

    def fetched(self, follower: Follower, at: datetime = AT) -> Fetch:
        """One question and its answer by the real road: built, asked as the worker asks, answered by the API."""
        row = follower.row
        row.refresh_from_db()
        question = request_for(row)
        self._be(ISSUER, SITE)
        self.monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        asked = dict(parse_qsl(urlsplit(question.url).query))
        build_feed(self.teller.feed.pk, at=at)
        answer = Client().get("/api/v1/feeds/vo-a", asked, headers=question.headers)
        self._go_on()
        self.side.serves, self.side.status = answer.content, answer.status_code
        self.side.etag = answer.get("ETag", "")
        self._be("site.example", "site-a")
        found = look_at(row, self.monkeypatch, at)
        if found.outcome in ("applied", "same"):
            follower.knows = self.line[row.seen_number]
        return found

    def follow(self, follower: Follower) -> Fetch:
        """Until there is no more, or it is refused."""
        while True:
            found = self.fetched(follower)
            if found.outcome not in ("applied", "same") or follower.has_all:
                return found

    def is_of_this_line(self, follower: Follower) -> bool:
        row = follower.row
        return not row.number or self.line.get(row.seen_number) is follower.knows

    def expected(self, row: Subscription) -> Counted:
        """By hand, from the buckets of the sending site."""
        root, top = self.teller.feed.entry_uid, int(AT.timestamp()) // 3600
        return {
            (row.entry_uid if uid == root else uid, AT + (hour - top) * HOUR): amounts[0]
            for hour, of in self.teller.expected().items()
            for uid, amounts in of.items()
        }

    def is_exact(self, follower: Follower) -> bool:
        """Whether the accepted usage equals that of the feed; hours in which a job only ended have sums too."""
        running = sum(job.cpus for job in self.jobs.values() if job.ended_h is None)
        same_sums = counted(follower.row) == self.expected(follower.row)
        return same_sums and cores_running(follower.row) == running

    def _be(self, issuer: str, site: str) -> None:
        self.settings.FAIRSHARE_ISSUER, self.settings.FAIRSHARE_SITE = issuer, site

    def _go_on(self) -> None:
        for number in range(len(self.line) + 1, UsageFeed.objects.get().number + 1):
            self.line[number] = object()


def _replace(table: type[Model], rows: list[Row]) -> None:
    table._default_manager.all().delete()
    table._default_manager.bulk_create([table(**row) for row in rows])


def _row(one: UsageFeed | FeedHour | FeedMark | FeedRunning) -> Row:
    return {column.attname: getattr(one, column.attname) for column in one._meta.concrete_fields}


def _mount(policy: Policy, path: str) -> None:
    """As the place of what VO-A maintains, which isn't fetched here."""
    of = {"issuer": "vo-a.example", "publication": "vo-a"}
    operation = {"op": "mount", "entry": path, "mount": of}
    publish_operations(policy_slug=policy.slug, operations=[operation], reason="So.", at=AT, actor=COMMAND)
    policy.refresh_from_db()
    tree = load_tree(policy)
    entry = tree.uuid(tree.index_of_path(path) or 0)
    Mount.objects.create(
        policy=policy, entry_uid=entry, url="https://vo-a.example/x", fingerprint="0" * 64, made_at=AT, **of
    )


def make_restored() -> Teller:
    """The publishing site, and two subscriptions to its feed: a world, to which each test gives its own address."""
    with override_settings(FAIRSHARE_ISSUER=ISSUER, FAIRSHARE_SITE=SITE):
        teller = make_teller(is_open=True)
        teller.map(P_A1="/VO-A/P-A1", P_A2="/VO-A/P-A2")
    with override_settings(**as_site(NOWHERE)):
        fingerprint = load_keys(at=AT).key.public.fingerprint
        _mount(teller.policy, "/VO-A")
        subscribe(
            policy_slug="grid",
            entry="/VO-A",
            url=NOWHERE.url,
            issuer=ISSUER,
            feed="vo-a",
            fingerprint=fingerprint,
            capacity_cores=100,
            reason="One grid.",
            at=AT,
            actor=COMMAND,
        )
        _subscribe_second(fingerprint)
    return teller


def _subscribe_second(fingerprint: str) -> None:
    """For a policy of its own, which has mounted the same and not looked yet; `subscribe` takes nothing twice."""
    services.make_policy(slug="other", name="Other", at=AT, actor=COMMAND)
    tree = {"root": {"name": "other", "children": [{"name": "there", "kind": "vo", "shares": 1}]}}
    services.publish_document(policy_slug="other", document=tree, reason="So.", at=AT, actor=COMMAND)
    policy = Policy.objects.get(slug="other")
    _mount(policy, "/there")
    source = make_peer_source(slug="second", name="Second", origin=ISSUER, site=SITE, at=AT, actor=COMMAND)
    uid: UUID = load_tree(policy).uuid(1)
    Subscription.objects.create(
        policy=policy,
        entry_uid=uid,
        url=NOWHERE.url,
        issuer=ISSUER,
        feed="vo-a",
        fingerprint=fingerprint,
        capacity_cores=100,
        source=source,
        due_at=AT,
        made_at=AT,
    )


@contextmanager
def restored_site(teller: Teller, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestoredSite]:
    with serving(OtherSide(at=AT)) as side:
        for name, value in as_site(side).items():
            setattr(settings, name, value)
        Subscription.objects.update(url=side.url)
        rows = Subscription.objects.select_related("policy", "source").order_by("pk")
        yield RestoredSite(side, settings, monkeypatch, teller, [Follower(row) for row in rows])
