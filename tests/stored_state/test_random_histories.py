"""Whatever happens to a site, what it has stored is what it would make of its present state from nothing.

Random jobs, corrections, publications, mappings and sources; workers that are killed anywhere and whose runs are
resumed; databases restored from before; clocks that are ahead for a tick. HISTORY_SEED, HISTORY_STEPS and
HISTORIES choose others, and more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import LazySettings

from apps.accounts import account_index
from apps.accounts.actor import COMMAND
from apps.accounts.models import ClockMark
from apps.core.errors import DomainError
from apps.federation.models import UsageFeed
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.policies.models import ChangeSet
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.snapshot_retention import prune_snapshots
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.series.back_test_runs import DAYS, request_back_test
from apps.series.runs import build_series_stale, enqueue_series_build
from tests.priority_site import Site
from tests.stored_state import from_nothing
from tests.stored_state.random_site import RandomSite, next_days, next_minutes
from tests.stored_state.restarts import Backups, Killed, killed_at_some_point, work_or_die

pytestmark = pytest.mark.django_db(transaction=True)

SEED = int(os.environ.get("HISTORY_SEED", "1"))
STEPS = int(os.environ.get("HISTORY_STEPS", "250"))
HISTORIES = int(os.environ.get("HISTORIES", "4"))
AHEAD = (timedelta(hours=3), timedelta(days=30), timedelta(days=400))
KILLED_REQUESTS, KILLED_RUNS = 0.05, 0.3


@pytest.fixture
def backups() -> Iterator[Backups]:
    made = Backups()
    yield made
    made.drop_all()


class History:
    """A random site with workers that fail, and how often each thing happened to it."""

    def __init__(self, seed: int, backups: Backups) -> None:
        self.seed, self.backups = seed, backups
        self.site = RandomSite(seed)
        self.draw = self.site.random
        self.counts: Counter[str] = Counter()
        self.killed: list[str] = []
        self.kept: list[tuple[str, tuple[object, ...]]] = []
        self._weights: dict[Callable[[], None], float] = {
            self._act: 20,
            self._pass_time: 8,
            self._recompute: 5,
            self._build_series: 0.8,
            self._build_feeds: 1,
            self._test_drafts: 0.3,
            self._jump: 0.2,
            self._restore: 0.3,
        }
        for site in self.site.policies:
            make_feed(
                policy_slug=site.slug, entry="/", name=site.slug, capacity_cores=8, at=self.site.at, actor=COMMAND
            )

    @property
    def policies(self) -> list[Site]:
        for site in self.site.policies:
            site.policy.refresh_from_db()
        return self.site.policies

    def step(self) -> None:
        """One thing happens: to the site, to time, to a worker, a process or the database."""
        (what,) = self.draw.choices(list(self._weights), weights=list(self._weights.values()))
        self.counts[what.__name__.strip("_")] += 1
        what()

    def _act(self) -> None:
        if self.draw.random() < KILLED_REQUESTS:
            with killed_at_some_point(self.draw, self.killed):
                self.site.act()
            return
        self.site.act()

    def _pass_time(self) -> None:
        self.draw.choice([next_minutes, next_days])(self.site)
        self._note_clock()

    def _note_clock(self) -> None:
        """Workers have read the clock every minute until now; in every second history none has ever done so."""
        if self.seed % 2:
            ClockMark.objects.update_or_create(pk=ClockMark.ONLY, defaults={"at": self.site.at})

    def _recompute(self) -> None:
        site = self.draw.choice(self.policies)
        snapshot = self._computed(site)
        self._compare(from_nothing.snapshot_differences(site, snapshot, self.site.at))
        if self.draw.random() < 0.2:
            self._compare(from_nothing.delivered_differences(site, self.site.at))

    def _computed(self, site: Site) -> Snapshot:
        queue_recompute(site.policy, at=self.site.at)
        self._work_due()
        site.policy.refresh_from_db()
        run = queue_recompute(site.policy, at=self.site.at)  # of what came while others went on
        self._work_due(with_kills=False)
        run.refresh_from_db()
        return Snapshot.objects.get(pk=run.result["snapshot"])

    def _work_due(self, *, with_kills: bool = True) -> None:
        """Work what is due. Some workers are killed, and others go on, sometimes after something else has happened."""
        while (lease := claim_run(at=self.site.at, clock=lambda: self.site.at)) is not None:
            attempts = Run.objects.values_list("attempts", flat=True).get(pk=lease.run_id)
            if not with_kills or attempts > 2 or self.draw.random() >= KILLED_RUNS:  # a run fails with its third worker
                work_lease(lease)
            elif not work_or_die(lease, self.draw, self.killed) and self.draw.random() < 0.5:
                self.site.act()
        failed = Run.objects.filter(state=Run.State.FAILED).values_list("kind", "error")
        assert not failed, (list(failed), self.messages())

    def _build_series(self) -> None:
        site = self.draw.choice(self.policies)
        enqueue_series_build(site.policy, at=self.site.at)
        self._work_due()
        site.policy.refresh_from_db()
        from_nothing.build_series(site.policy, self.site.at)  # what came while it was built
        self._compare(from_nothing.series_differences(site, self.site.at))

    def _build_feeds(self) -> None:
        for feed in UsageFeed.objects.select_related("policy").order_by("pk"):
            build_feed(feed.pk, at=self.site.at)
            self._compare(from_nothing.feed_differences(feed, self.site.at))

    def _test_drafts(self) -> None:
        """Back-test a draft, and look at it again after all that comes."""
        site = self.draw.choice(self.policies)
        tree = load_tree(site.policy)
        entry = tree.path(self.draw.randrange(1, len(tree))) if len(tree) > 1 else None
        if entry:
            operations = [{"op": "set_shares", "entry": entry, "shares": self.draw.randint(1, 9)}]
            new = NewChangeSet(operations=operations, reason="random")
            try:
                made = make_change_set(policy_slug=site.slug, new=new, at=self.site.at, actor=COMMAND)
                request_back_test(
                    change_set_id=made.pk, n_days=self.draw.choice(DAYS[:2]), at=self.site.at, actor=COMMAND
                )
            except DomainError as refusal:
                self.site.say("refused back-test", refusal)
            self._work_due()
        for change_set in ChangeSet.objects.exclude(state__in=("published", "withdrawn")).order_by("pk"):
            self._compare(from_nothing.back_test_differences(change_set, self.site.at))

    def _jump(self) -> None:
        """The clock is ahead for a tick, in which everything that is scheduled is done."""
        right_at = self.site.at
        self.site.advance(self.draw.choice(AHEAD))
        self.site.say("the clock is ahead")
        for site in self.policies:
            queue_recompute(site.policy, at=self.site.at)
        build_series_stale(at=self.site.at)
        for feed in UsageFeed.objects.order_by("pk"):
            build_feed(feed.pk, at=self.site.at)
        self._work_due(with_kills=False)
        prune_snapshots(at=self.site.at)
        self.site.at = right_at
        self.site.advance(timedelta(minutes=1))
        self._note_clock()
        self.site.say("the clock is right again")
        build_series_stale(at=self.site.at)
        prune_snapshots(at=self.site.at)

    def _restore(self) -> None:
        """Back up, or restore what an earlier step backed up: sources and jobs of after it are gone."""
        if not self.kept or self.draw.random() < 0.5:
            self.kept.append((self.backups.back_up(), self.site.memory()))
            self.site.say("backup", self.kept[-1][0])
            return
        name, memory = self.draw.choice(self.kept)
        self.backups.restore(name)
        self.site.remember(memory)
        self._note_clock()
        self.site.say("restored", name)

    def _compare(self, differences: list[str]) -> None:
        self.counts["comparisons"] += 1
        assert not differences, "\n".join([*differences, f"seed {self.seed}, {self.counts}", *self.messages()])

    def messages(self) -> list[str]:
        return self.site.log[-15:]


def live(seed: int, n_steps: int, backups: Backups) -> History:
    history = History(seed, backups)
    try:
        for _ in range(n_steps):
            history.step()
    except Killed:  # pragma: no cover - it must not leave the workers
        raise AssertionError("a kill left its worker") from None
    summary = dict(history.counts, kills=len(history.killed), points=len(set(history.killed)))
    print(f"seed {seed}: {n_steps} steps, {summary}")
    return history


@pytest.fixture(autouse=True)
def _named(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    monkeypatch.setattr(account_index, "MANY", 2)  # accounts are kept in files, as on a large site
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-20T12:00:02+00:00")


def test_a_short_history_leaves_what_would_be_made_from_nothing(backups: Backups) -> None:
    live(7, 60, backups)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEED, SEED + HISTORIES))
def test_a_long_history_leaves_what_would_be_made_from_nothing(seed: int, backups: Backups) -> None:
    history = live(seed, STEPS, backups)
    assert history.counts["comparisons"] > STEPS / 10
    assert history.killed
