"""A small site through the front doors, for tests of mapping, priorities and the layers above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.recompute import staleness as recompute
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source

AS_OF = datetime(2026, 11, 20, 12, tzinfo=UTC)
NO_AGING = {"window": {"length_s": None, "aging": "none"}}
WINDOW = {"window": {"length_s": 3 * 86_400, "aging": "exponential", "half_life_s": 86_400}}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(seconds=2)).isoformat())


@dataclass
class Site:
    """A small site, through the front doors: a policy of two projects, a source, and one mapping rule."""

    policy: Policy
    source: Source

    @property
    def slug(self) -> str:
        return self.policy.slug

    def publish(
        self, children: Sequence[dict[str, Any]], settings: dict[str, Any] | None = None, *, at: datetime = AS_OF
    ) -> None:
        root = {"name": self.slug, "shares": 1, "children": list(children)}
        document = {"policy": self.slug, "settings": settings or NO_AGING, "root": root}
        publish_document(policy_slug=self.slug, document=document, reason="test", at=at, actor=COMMAND)
        self.policy.refresh_from_db()

    def map(self, *rules: Rule, at: datetime = AS_OF) -> None:
        set_rules(policy_slug=self.slug, rules=rules or [self.rule()], at=at, actor=COMMAND)

    def rule(self, path: str = "/", **fields: Any) -> Rule:
        tree = load_tree(self.policy)
        entry = tree.index_of_path(path)
        assert entry is not None
        return Rule(**{"kind": "glob", "suffix": "/{group}/{user}", **fields, "target_uid": tree.uuid(entry)})

    def job(
        self, user: str, group: str, hours: float, *, ago_h: float = 1, source: Source | None = None, **fields: Any
    ) -> None:
        """A finished job of one CPU that ended some hours ago; `hours` of core-hours by its number of CPUs."""
        self.jobs([finished(user, group, hours, ago_h=ago_h, **fields)], source=source)

    def jobs(self, rows: Sequence[RecordRow], *, source: Source | None = None) -> None:
        """Many at once, which takes a fraction of the time."""
        last = max(row.end_at for row in rows if row.end_at is not None)
        ingest_batch(source=source or self.source, rows=rows, at=max(AS_OF, last))

    def running(
        self,
        user: str,
        group: str,
        *,
        cpus: float,
        since_h: float,
        requested_h: float | None = None,
        source: Source | None = None,
    ) -> None:
        row = RecordRow(
            job=f"running-{user}-{group}",
            user=user,
            group=group,
            state="running",
            submit_at=AS_OF - timedelta(hours=since_h),
            start_at=AS_OF - timedelta(hours=since_h),
            end_at=None,
            cpus=cpus,
            requested_s=None if requested_h is None else requested_h * 3600,
        )
        ingest_batch(source=source or self.source, rows=[row], at=AS_OF)

    def recompute(self, as_of: datetime | None = None) -> Snapshot:
        run = recompute.request_recompute(
            policy_slug=self.slug, as_of=as_of, at=AS_OF + timedelta(seconds=1), actor=COMMAND
        )
        done = work_run_now(run.pk)
        assert done.state == "succeeded", done.error
        return Snapshot.objects.get(pk=done.result["snapshot"])


def finished(user: str, group: str, hours: float, *, ago_h: float = 1, **fields: Any) -> RecordRow:
    end_at = AS_OF - timedelta(hours=ago_h)
    return RecordRow(
        **{
            "job": f"{user}-{group}-{hours}-{ago_h}-{fields.get('queue', '')}",
            "user": user,
            "group": group,
            "state": "finished",
            "submit_at": end_at - timedelta(hours=1),
            "start_at": end_at - timedelta(hours=1),
            "end_at": end_at,
            "cpus": hours,
            **fields,
        }
    )


def children(**groups: dict[str, float]) -> list[dict[str, Any]]:
    """`physics={"": 60, "alice": 1}`: a group with 60 shares and its users."""
    return [
        {
            "name": name,
            "kind": "group",
            "shares": users.get("", 1),
            "children": [{"name": user, "kind": "user", "shares": n} for user, n in users.items() if user],
        }
        for name, users in groups.items()
    ]


PROJECTS = children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3, "dan": 1})
MORE_PHYSICS = children(physics={"": 80, "alice": 1, "bob": 1}, biology={"": 20, "carol": 3, "dan": 1})
REVISED_DAYS = 6


def new_site(slug: str = "grid", visibility: str = "tree", at: datetime = AS_OF, **source: Any) -> Site:
    """Without entries."""
    policy = make_policy(
        slug=slug,
        name=slug,
        details=PolicyDetails(visibility=visibility),
        settings=PolicySettings(),
        at=at,
        actor=COMMAND,
    )
    found = make_source(
        NewSource(**{"slug": f"{slug}-c1", "name": "c1", "namespace": "c1", **source}), at=AS_OF, actor=COMMAND
    )
    return Site(policy, found)


@pytest.fixture
def make_site(db: None) -> Callable[..., Site]:
    return new_site


@pytest.fixture
def site(two_projects: Site) -> Site:
    return two_projects


def make_two_projects() -> Site:
    """Physics used 55 of 100 core-hours of its 60 %; biology 45, all of it carol."""
    made = new_site()
    made.publish(PROJECTS)
    made.map()
    made.job("alice", "physics", 40)
    made.job("bob", "physics", 15)
    made.job("carol", "biology", 45)
    return made


def make_month_of_days() -> Site:
    """Thirty days with usage on every second one, and their series."""
    made, day = new_site(), timedelta(days=1)
    made.publish(PROJECTS, WINDOW, at=AS_OF - 30 * day)
    made.map()
    days = range(1, 31, 2)
    made.jobs([finished("alice", "physics", 1 + ago_d, ago_h=24 * ago_d) for ago_d in days])
    made.jobs([finished("carol", "biology", 2, ago_h=24 * ago_d + 3) for ago_d in days])
    build_series(made)
    return made


def make_revised_days() -> Site:
    """Six days of usage under three revisions, and their series: physics has 60, 80 and 60 shares of 100."""
    made, day = new_site(at=AS_OF - timedelta(days=9)), timedelta(days=1)
    made.publish(PROJECTS, WINDOW, at=AS_OF - 8 * day)
    made.publish(MORE_PHYSICS, WINDOW, at=AS_OF - 4 * day)
    made.publish(PROJECTS, WINDOW, at=AS_OF - 2 * day)
    made.map(at=AS_OF - 8 * day)
    for ago_d in range(1, REVISED_DAYS + 1):
        made.job("alice", "physics", 4 + ago_d, ago_h=24 * ago_d)
        made.job("carol", "biology", 3 + ago_d % 3, ago_h=24 * ago_d + 3)
        made.job("bob", "physics", 1 + ago_d % 2, ago_h=24 * ago_d + 5)
    build_series(made)
    return made


def build_series(site: Site, at: datetime = AS_OF) -> dict[str, Any]:
    done = work_run_now(enqueue_series_build(site.policy, at=at).pk)
    assert done.state == "succeeded", done.error
    result: dict[str, Any] = done.result
    return result


@pytest.fixture
def as_eva(db: None) -> Actor:
    return Actor(user=User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"), via="page")


@pytest.fixture
def as_alice(db: None) -> Actor:
    return Actor(user=User.objects.create_user("alice", "alice@example.org", "a long pass phrase"), via="page")
