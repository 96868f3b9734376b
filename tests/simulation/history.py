"""A random site, its peer, and what befalls its processes: one step is one thing that happens.

Each step draws from its own seed, so that the others stay as they are where it is left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

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
from tests.simulation import from_nothing, invariants
from tests.simulation.peers import Peer, a_peer
from tests.simulation.random_site import RandomSite, next_days, next_minutes
from tests.simulation.restarts import Backups, Killed, killed_at_some_point, work_or_die

AHEAD = (timedelta(hours=3), timedelta(days=30), timedelta(days=400))
KILLED_REQUESTS, KILLED_RUNS = 0.05, 0.3
SWARM = (0.3, 1.0, 1.0, 3.0)  # a seed does some things often and others seldom
AUDITED_EVERY = 10  # steps; a chain that broke stays broken


class Wrong(AssertionError):
    """An invariant doesn't hold; the message says which, and what happened before."""


class History:
    """A random site with workers that fail, and how often each thing happened to it."""

    def __init__(self, seed: int, backups: Backups, site: RandomSite, peer: Peer) -> None:
        self.seed, self.backups = seed, backups
        self.site, self.peer = site, peer
        self.draw = self.site.random
        self.counts: Counter[str] = Counter()
        self.killed: list[str] = []
        self.kept: list[tuple[str, tuple[object, ...]]] = []
        self._weights: dict[Callable[[], None], float] = {
            self._act: 20,
            self._pass_time: 8,
            self._recompute: 5,
            self._build_series: 2,
            self._build_feeds: 1,
            self._test_drafts: 0.6,
            self._jump: 0.2,
            self._restore: 0.3,
            self._act_as_peer: 2,
            self._fetch: 2,
        }
        for what in self._weights:
            self._weights[what] *= self.draw.choice(SWARM)
        for policy in self.site.policies:
            make_feed(
                policy_slug=policy.slug, entry="/", name=policy.slug, capacity_cores=8, at=self.site.at, actor=COMMAND
            )

    @property
    def policies(self) -> list[Site]:
        for site in self.site.policies:
            site.policy.refresh_from_db()
        return self.site.policies

    def step(self, number: int) -> None:
        """One thing happens: to the site, its peer, to time, to a worker, a process or the database."""
        self.draw.seed(f"{self.seed} {number}")
        (what,) = self.draw.choices(list(self._weights), weights=list(self._weights.values()))
        self.counts[what.__name__.strip("_")] += 1
        what()
        self._compare([*invariants.usage_differences(), *invariants.count_differences()])
        if number % AUDITED_EVERY == 0:
            self._compare(invariants.audit_differences(self.site.at))

    def _act_as_peer(self) -> None:
        self.site.say(self.peer.act(self.site.at))

    def _fetch(self) -> None:
        """From the peer, by workers of which some are killed; a failed answer fails its fetch alone."""
        runs = self.peer.request(self.site.at)
        self._work_due()
        self.site.say("fetched", [run.subject for run in runs])
        self._compare(self.peer.differences(runs))

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
        if failed:
            raise Wrong("\n".join([f"a run failed: {list(failed)}", *self.messages()]))

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
        for site in self.policies:
            queue_recompute(site.policy, at=self.site.at)
        self._work_due(with_kills=False)
        prune_snapshots(at=self.site.at)
        self._compare(invariants.snapshots_ahead(self.site.at))

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
        if differences:
            raise Wrong("\n".join([*differences, f"seed {self.seed}, {dict(self.counts)}", *self.messages()]))

    def messages(self) -> list[str]:
        return self.site.log[-15:]


def live(seed: int, steps: Sequence[int], backups: Backups) -> History:
    """The history of a seed with these of its steps, on a database that has nothing yet.

    Raises:
        Wrong: something doesn't hold.
    """
    with _drawn_bytes(seed):
        site = RandomSite(seed)
        with a_peer(site.policies[0], site.random, site.at) as peer:
            history = History(seed, backups, site, peer)
            try:
                for number in steps:
                    history.step(number)
            except Killed:  # pragma: no cover - it must not leave the workers
                raise AssertionError("a kill left its worker") from None
            return history


@contextmanager
def _drawn_bytes(seed: int) -> Iterator[None]:
    """Uids and secrets of a seed are the same whenever it is run."""
    with patch("os.urandom", random.Random(f"bytes {seed}").randbytes):
        yield


def shortest(seed: int, steps: Sequence[int], fails: Callable[[Sequence[int]], bool], most_tries: int) -> list[int]:
    """Leave out steps as long as the history fails: halves first, then smaller pieces, at most so many tries."""
    left, size, tries = list(steps), max(1, len(steps) // 2), 0
    while size and tries < most_tries:
        at = 0
        while at < len(left) and tries < most_tries:
            fewer = left[:at] + left[at + size :]
            tries += 1
            if fewer and fails(fewer):
                left = fewer
            else:
                at += size
        size //= 2
    return left
