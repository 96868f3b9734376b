"""A peer whose policy is mounted and whose usage is subscribed to. It publishes, reports, fails, and is restored."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Sum
from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import make_mount
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.usage.models import Bucket
from tests.federation.other_side import KEY, P1, P2, P3, OtherFeed, OtherSide, projects, serving
from tests.federation.worlds import as_site
from tests.priority_site import Site

ENTRY = "vo"
_BROKEN = (b"", b"{", b"not a document")
_MOST_HOURS = 72


class Peer:
    """Its publication and its feed; `differences` says where the site has something else of them than was sent."""

    def __init__(self, policy: Site, draw: random.Random, at: datetime, side: OtherSide, feed: OtherFeed) -> None:
        self.policy, self.draw, self.side, self.feed = policy, draw, side, feed
        self.versions: set[tuple[float, ...]] = set()
        self.hours: dict[datetime, dict[UUID, float]] = defaultdict(dict)
        self._begin(at)

    def _begin(self, at: datetime) -> None:
        self._publish(at)
        self._report(at)
        operation = {"op": "add", "parent": "/", "name": ENTRY, "kind": "vo", "shares": 5}
        slug = self.policy.slug
        publish_operations(policy_slug=slug, operations=[operation], reason="A place.", at=at, actor=COMMAND)
        made: dict[str, Any] = {
            "policy_slug": slug,
            "entry": f"/{ENTRY}",
            "fingerprint": KEY.public.fingerprint,
            "reason": "One grid.",
            "at": at,
            "actor": COMMAND,
        }
        make_mount(url=self.side.url, issuer="vo-a.example", publication="vo-a", settings={"most_points": 100}, **made)
        subscribe(url=self.feed.url, issuer=self.feed.name, feed="vo-a", capacity_cores=100, **made)

    def act(self, at: datetime) -> str:
        """Publish other shares, report other usage, or fail until the next time."""
        self.side.status = self.feed.status = 200
        kind = self.draw.choice(["publish", "report", "report", "fail"])
        if kind == "publish":
            self._publish(at)
        elif kind == "report":
            self._report(at)
        else:
            self.side.status = self.feed.status = self.draw.choice([404, 500, 503])
        return f"peer: {kind}"

    def _publish(self, at: datetime) -> None:
        shares = tuple(float(self.draw.randint(1, 9)) for _ in range(3))
        self.side.at = at
        self.side.publish(projects(*shares))
        self.versions.add(shares)

    def _report(self, at: datetime) -> None:
        """Totals of an hour change: reports of a late job, and corrections."""
        self.feed.at = at
        hour = at.replace(minute=0, second=0, microsecond=0) - timedelta(hours=self.draw.randint(1, _MOST_HOURS))
        self.hours[hour][self.draw.choice([P1, P2])] = float(self.draw.randint(0, 100) * 60)
        self.feed.use({hour: dict(self.hours[hour])})

    def request(self, at: datetime) -> list[Run]:
        """Fetches of what is mounted or subscribed to, or of both, if the database has it."""
        remotes: list[Mount | Subscription] = [*Mount.objects.order_by("pk"), *Subscription.objects.order_by("pk")]
        few = self.draw.sample(remotes, min(len(remotes), self.draw.choice([1, 1, 2])))
        return [request_fetch(remote, at=at) for remote in few]

    def differences(self, runs: list[Run]) -> list[str]:
        differences: list[str] = []
        for run in runs:
            run.refresh_from_db()
            if run.state != Run.State.SUCCEEDED or run.result.get("outcome") not in ("applied", "unchanged"):
                continue
            differences += self._mounted() if "mount" in run.subject else self._reported()
        return differences

    def _mounted(self) -> list[str]:
        """Shares of one version, never of two."""
        self.policy.policy.refresh_from_db()
        tree = load_tree(self.policy.policy)
        at = [tree.index_of_uid(uid) for uid in (P1, P2, P3)]
        shares = tuple(float(tree.shares[place]) for place in at if place is not None)
        known = self.versions | {()}
        return [] if shares in known else [f"{shares} are mounted: of no version that was published"]

    def _reported(self) -> list[str]:
        row = Subscription.objects.get()
        stored = Bucket.objects.filter(source_id=row.source_id).aggregate(total=Sum("cpu_s"))["total"] or 0.0
        sent = sum(sum(rows.values()) for rows in self.hours.values())
        return [] if abs(stored - sent) < 1e-6 else [f"{stored} core-s of the peer are stored, {sent} were reported"]


@contextmanager
def a_peer(policy: Site, draw: random.Random, at: datetime) -> Iterator[Peer]:
    with (
        serving(OtherSide(at=at)) as side,
        serving(OtherFeed(at=at)) as feed,
        override_settings(**as_site(side, feed)),
    ):
        yield Peer(policy, draw, at, side, feed)
