"""A site that sends usage, a reader of its feed, and the expected sums by hand."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.core.signing import open_document
from apps.federation.documents.site_keys import load_keys
from apps.federation.documents.wire_usage import State, UsageDocument, read_usage
from apps.federation.models import FeedHour, FeedMark, FeedRunning, UsageFeed
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feed_documents import SignedFeed, read_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.services import set_rules
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.models import Bucket, Overlap, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.instants import AT

Sums = dict[int, dict[UUID, tuple[float, ...]]]  # hour since 1970 → uid of the entry → amounts
HOUR = timedelta(hours=1)


def _users(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "kind": "user", "shares": 1} for name in names]


TREE = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "VO-A",
                "kind": "vo",
                "shares": 30,
                "children": [
                    {"name": "P-A1", "kind": "project", "shares": 50, "children": _users("anna", "bert")},
                    {"name": "P-A2", "kind": "project", "shares": 50, "children": _users("carl")},
                ],
            },
            {
                "name": "VO-B",
                "kind": "vo",
                "shares": 70,
                "children": [{"name": "P-B1", "kind": "project", "shares": 1, "children": _users("dora")}],
            },
        ],
    }
}
PLACES = {"P_A1": "/VO-A/P-A1", "P_A2": "/VO-A/P-A2", "P_B1": "/VO-B/P-B1", "of_a": "/VO-A"}


@dataclass
class Teller:
    """A site with a feed of /VO-A; its one source knows users by the groups P-A1, P-A2 and P-B1."""

    policy: Policy
    source: Source
    feed: UsageFeed

    def map(self, **places: str) -> None:
        """group="/path": its users below this entry, the group alone counts to the entry itself."""
        tree = load_tree(self.policy)
        rules = []
        for group, path in places.items():
            entry = tree.index_of_path(path)
            assert entry is not None
            rules.append(
                Rule(kind="glob", group_pattern=group.replace("_", "-"), suffix="/{user}", target_uid=tree.uuid(entry))
            )
        set_rules(policy_slug=self.policy.slug, rules=rules, at=AT, actor=COMMAND)

    def job(
        self, job: int | str, user: str, group: str, *, ago_h: float = 2.0, hours: float = 1.0, **given: Any
    ) -> None:
        """One that ended some hours before AT."""
        end_at = AT - ago_h * HOUR
        start_at = given.get("start_at") or end_at - hours * HOUR
        values: dict[str, Any] = {
            "job": str(job),
            "user": user,
            "group": group,
            "state": "finished",
            "submit_at": start_at,
            "start_at": start_at,
            "end_at": end_at,
            "cpus": 1.0,
            "mem_mb": 1024.0,
        }
        source = given.pop("source", self.source)
        ingest_batch(source=source, rows=[RecordRow(**{**values, **given})], at=AT)

    def uid(self, path: str) -> UUID:
        self.policy.refresh_from_db()
        tree = load_tree(self.policy)
        entry = tree.index_of_path(path)
        assert entry is not None, path
        return tree.uuid(entry)

    def expected(self, *, at: datetime = AT) -> Sums:
        """Bucket by bucket, by the present rules."""
        self.policy.refresh_from_db()
        tree = load_tree(self.policy)
        resolver = load_rule_set(self.policy, tree).on(tree)
        root = tree.index_of_uid(self.feed.entry_uid)
        sums: dict[int, dict[UUID, list[float]]] = defaultdict(dict)
        for bucket in Bucket.objects.filter(source__origin="", hour_at__lte=at).select_related("account"):
            key = AccountKey(*(getattr(bucket.account, name) for name in AccountKey._fields))
            entry = resolver.decide(key)[0].entry
            if entry < 0 or root not in (entry, *tree.ancestors(entry)) or _is_held(bucket):
                continue
            amounts = [getattr(bucket, name) for name in AMOUNTS]
            hour = int(bucket.hour_at.timestamp()) // 3600
            before = sums[hour].get(tree.uuid(entry), [0.0] * 6)
            sums[hour][tree.uuid(entry)] = [one + more for one, more in zip(before, amounts, strict=True)]
        return {hour: {uid: tuple(amounts) for uid, amounts in of.items()} for hour, of in sums.items()}


def _is_held(bucket: Bucket) -> bool:
    rows = Overlap.objects.filter(held_id=bucket.source_id, site=bucket.site).exclude(state="counted")
    return rows.filter(from_at__lte=bucket.hour_at, to_at__gt=bucket.hour_at).exists()


def make_teller(*, entry: str = "/VO-A", tree: dict[str, Any] = TREE, **given: Any) -> Teller:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=tree, reason="The start.", at=AT, actor=COMMAND)
    policy = Policy.objects.get(slug="grid")
    source = make_source(NewSource(slug="cluster", name="The cluster", namespace="c1"), at=AT, actor=COMMAND)
    values = {"name": "vo-a", "capacity_cores": 100.0, **given}
    feed = make_feed(policy_slug="grid", entry=entry, at=AT, actor=COMMAND, **values)
    return Teller(policy, source, not_built(feed))


def not_built(feed: UsageFeed) -> UsageFeed:
    """As before its first build, so that the first number is that of what a test writes."""
    for table in (FeedHour, FeedMark, FeedRunning):
        table.objects.filter(feed=feed).delete()
    UsageFeed.objects.filter(pk=feed.pk).update(number=0, running_digest="", running_number=0, basis={}, built_at=None)
    return UsageFeed.objects.select_related("policy").get(pk=feed.pk)


def make_teller_with_jobs() -> Teller:
    """With jobs of all users in the subtree, of one beside it, of one without a place, and of one at the VO itself."""
    made = make_teller()
    made.map(**PLACES)
    made.job(1, "anna", "P-A1", ago_h=3, hours=2, cpus=4.0, gpus=1.0)
    made.job(2, "bert", "P-A1", ago_h=2.5, cpus=0.3)
    made.job(3, "carl", "P-A2", ago_h=30, hours=5)
    made.job(4, "dora", "P-B1", ago_h=1)
    made.job(5, "nobody", "P-Z", ago_h=1)
    made.job(6, "zeno", "of-a", ago_h=1)
    return made


def built_and_read(feed: UsageFeed, *, at: datetime, **asked: Any) -> SignedFeed | None:
    """As the schedule builds a feed, and a reader gets it."""
    build_feed(feed.pk, at=at)
    return read_feed(feed, at=at, **asked)


@dataclass
class Reader:
    """Another site: replaces what it had by what is sent, and remembers its number.

    is_first_built: whether the feed is built before each question, as the schedule does in the background.
    """

    feed: UsageFeed
    is_first_built: bool = True
    number: int = 0
    seen: State | None = None
    etag: str = ""
    sums: Sums = field(default_factory=dict)
    running: list[tuple[UUID, float]] = field(default_factory=list)
    documents: list[UsageDocument] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)

    def fetched(self, *, at: datetime = AT) -> bool:
        """One question; whether there is more."""
        seen = self.seen.number if self.seen and self.number else None
        read = built_and_read if self.is_first_built else read_feed
        found = read(self.feed, since=self.number, seen=seen, known_etag=self.etag, at=at)
        if found is None:
            return False
        document = opened(found)
        assert (document.head.since, document.head.number) == (self.number, found.number)
        assert document.head.seen == (self.seen if self.number else None), "its line was forked"
        self.documents.append(document)
        self.data.append(found.data)
        self.sums |= {hour: {} for hour in document.hours.tolist()}
        rows = zip(document.row_hour.tolist(), document.row_entry.tolist(), document.amounts.tolist(), strict=True)
        for hour, entry, amounts in rows:
            self.sums[hour][document.entries[entry]] = tuple(amounts)
        if document.running is not None:
            jobs = zip(document.running.entry.tolist(), document.running.cpus.tolist(), strict=True)
            self.running = [(document.entries[entry], cpus) for entry, cpus in jobs]
        self.number, self.seen, self.etag = found.number, document.head.newest, found.etag
        return document.head.more

    def follow(self, *, at: datetime = AT) -> Sums:
        """Until there is no more; what it has then, without empty hours."""
        while self.fetched(at=at):
            pass
        return {hour: of for hour, of in self.sums.items() if of}


def opened(found: SignedFeed) -> UsageDocument:
    fingerprint = load_keys(at=AT).key.public.fingerprint
    return read_usage(open_document(found.data, trusted={fingerprint}).document)
