"""A random site, its peer, and what befalls its processes: one step is one thing that happens.

Each step draws from its own seed, so that the others stay as they are where it is left out.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import patch

from django.db.models import Q

from apps.accounts.actor import COMMAND
from apps.accounts.models import ClockMark
from apps.cli.backup.restoring import OtherRestoreUnfinished
from apps.core import clock
from apps.core.errors import DomainError
from apps.federation import concurrent_fetch
from apps.federation import tasks as federation_tasks
from apps.federation.models import UsageFeed
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.mapping import tasks as mapping_tasks
from apps.policies import tasks as policies_tasks
from apps.policies.models import ChangeSet
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities import tasks as priorities_tasks
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.snapshot_retention import prune_snapshots
from apps.runs import services as runs
from apps.runs.models import Run
from apps.series import runs as series_runs
from apps.series import tasks as series_tasks
from apps.series.back_test_runs import DAYS, request_back_test
from apps.series.runs import build_series_stale, enqueue_series_build
from apps.usage import tasks as usage_tasks
from tests.priority_site import Site
from tests.simulation import from_nothing, invariants
from tests.simulation.editors import Editors
from tests.simulation.faults import ENDS, ENDS_OF_REQUESTS, Broker, End, Faults, Killed, end_leases, may_fail
from tests.simulation.outages import Reader
from tests.simulation.peers import Peer, a_peer
from tests.simulation.random_site import RandomSite, next_days, next_minutes
from tests.simulation.restarts import Archive, Backups, contents

AHEAD = (timedelta(hours=3), timedelta(hours=3), timedelta(days=30), timedelta(days=30), timedelta(days=400))
SWARM = (0.3, 1.0, 1.0, 2.0)  # a seed does some things often and others seldom
AUDITED_EVERY = 25  # steps; a chain that broke stays broken
SERVED_EVERY = 4  # a process asks for new snapshots every second, and between two steps much can happen
_MOST_SWEEPS = 100  # after which all runs have been sent, whatever the broker loses
_BROKEN = ("failed", "worker_lost", "disk_full")
_HOURS = 30  # that have an hourly series


@dataclass(frozen=True)
class Theme:
    """What the histories of some seeds are about, by the names of steps and factors of how often they happen.

    ends: share of runs whose worker ends, after `reach` fault points on average. lost: share of messages that are lost
    or come twice. is_late: jobs of former months come, too.
    """

    often: Mapping[str, float] = field(default_factory=dict)
    ends: float = 0.3
    reach: float = 6
    lost: float = 0.1
    is_late: bool = False


# A history of a theme comes upon states that one of everything reaches in hours; seed 1 has the first.
THEMES: Mapping[str, Theme] = {
    "builds that are resumed": Theme({"build_series": 2.5}, ends=0.8, reach=2.5, is_late=True),
    "clocks ahead": Theme({"jump": 12, "build_feeds": 6}),
    "drafts and late usage": Theme({"test_drafts": 4, "build_series": 2}, is_late=True),
    "restores": Theme({"restore": 15, "restore_archive": 20, "recompute": 3, "build_feeds": 2}),
    "lossy messages, dying workers": Theme({"fetch": 2, "act_as_peer": 2, "tick": 4}, ends=0.7, reach=4, lost=0.5),
    "editors beside each other": Theme({"edit": 15, "restore": 6, "act": 0.5}),
    "outages": Theme({"outage": 8, "recompute": 3}),
    "everything": Theme(is_late=True),
}
# What beat asks for.
TASKS: Sequence[Callable[[], object]] = (
    mapping_tasks.apply_rules_for_members,
    policies_tasks.apply_dates_of_shares,
    policies_tasks.publish_due_changes,
    priorities_tasks.recompute_stale,
    series_tasks.build_series_stale,
    federation_tasks.build_due_documents,
    federation_tasks.fetch_due_mounts,
    usage_tasks.close_silent_jobs,
    usage_tasks.remove_old_records,
    priorities_tasks.prune_snapshots,
)


class Wrong(AssertionError):
    """An invariant doesn't hold; the message says which, and what happened before. step: how many steps it took."""

    step = 0


class History:
    """A random site with workers that fail, and how often each thing happened to it."""

    def __init__(self, seed: int, backups: Backups, site: RandomSite, peer: Peer) -> None:
        self.seed, self.backups = seed, backups
        self.site, self.peer, self.editors, self.reader = site, peer, Editors(site), Reader()
        self.draw = self.site.random
        self.theme_name, self.theme = theme_of(seed)
        self.faults, self.broker = Faults(self.draw), Broker(self.draw, self.theme.lost)
        self.counts: Counter[str] = Counter()
        self.revisions = invariants.Revisions()
        self.n_steps = 0
        self.kept: list[tuple[str, tuple[object, ...]]] = []
        self.archives: list[tuple[Archive, tuple[object, ...]]] = []
        # Workers have read the clock every minute until now; in other histories none has ever done so.
        self._notes_clock = self.draw.random() < 0.5
        self._weights: dict[Callable[[], None], float] = {
            self._act: 30,
            self._pass_time: 9,
            self._recompute: 2,
            self._build_series: 1.2,
            self._build_feeds: 0.8,
            self._test_drafts: 0.5,
            self._tick: 0.5,
            self._jump: 0.2,
            self._restore: 0.3,
            self._restore_archive: 0.1,
            self._act_as_peer: 2,
            self._fetch: 1.2,
            self._edit: 3,
            self._outage: 0.7,
        }
        for what in self._weights:
            self._weights[what] *= self.draw.choice(SWARM) * self.theme.often.get(_name(what), 1.0)
        for policy in self.site.policies:
            make_feed(
                policy_slug=policy.slug,
                entry="/",
                name=policy.slug,
                capacity_cores=8,
                keeps_days=25,
                at=self.site.at,
                actor=COMMAND,
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
        self.counts[_name(what)] += 1
        what()
        self._compare(
            [*invariants.usage_differences(), *invariants.kind_differences(), *invariants.count_differences()]
        )
        if number % SERVED_EVERY == 0:
            self._compare(invariants.served_differences())
        if number % AUDITED_EVERY == 0:
            self._compare_what_is_kept()

    def end(self) -> None:
        """All that is stored is compared once more, after all work that is due."""
        self.broker.end_delay()
        self._work_due(with_ends=False)
        for site in self.policies:
            snapshot = self._computed(site)
            self._compare(from_nothing.snapshot_differences(site, snapshot, self.site.at))
            self._compare(from_nothing.delivered_differences(site, self.site.at))
            self._compare(from_nothing.against_today_differences(site, self.site.at))
            self._build(site)
            self._compare(from_nothing.series_differences(site, self.site.at))
        self._build_feeds()
        self._compare_what_is_kept()

    def _compare_what_is_kept(self) -> None:
        self._compare(invariants.audit_differences(self.site.at))
        self._compare(invariants.import_differences())
        self._compare(self.revisions.differences())

    def _act_as_peer(self) -> None:
        self.site.say(self.peer.act(self.site.at))

    def _edit(self) -> None:
        self._compare(self.editors.act())

    def _outage(self) -> None:
        """No worker works, and what the broker has is lost; people go on, and readers get the last good snapshot."""
        for _ in range(self.draw.randint(1, 4)):
            self.draw.choice([self.site.act, self.site.act, self._pass_time])()
            self._compare(self.reader.differences(self.policies, self.site.at))
        self.broker.lose_all()
        self.site.say("workers and broker were away")

    def _fetch(self) -> None:
        """From the peer, by workers of which some are killed; a failed answer fails its fetch alone."""
        requested = self.peer.request(self.site.at)
        self._work_due()
        self.site.say("fetched", [run.subject for run in requested])
        self._compare(self.peer.differences(requested))

    def _act(self) -> None:
        if self.draw.random() < self.theme.ends / 6:
            with self.faults.one(self.draw.choice(ENDS_OF_REQUESTS), reach=self.theme.reach):
                self.site.act()
            return
        self.site.act()

    def _pass_time(self) -> None:
        self.draw.choice([next_minutes, next_minutes, next_days])(self.site)
        self._note_clock()

    def _note_clock(self) -> None:
        if self._notes_clock:
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
        self._work_due(with_ends=False)
        run.refresh_from_db()
        return Snapshot.objects.get(pk=run.result["snapshot"])

    def _work_due(self, *, with_ends: bool = True) -> None:
        """Work what is due, by messages that may be lost. Some workers end, and others go on, sometimes after something
        else has happened. At last no run waits for a message or a worker.
        """
        self.broker.end_delay()
        for _sweep in range(_MOST_SWEEPS):
            for run_id, kind in self.broker.deliver():
                self._work(run_id, kind, with_ends=with_ends)
            if not runs.send_due_runs(at=self.site.at):
                break
        else:
            raise Wrong("\n".join(["due runs are sent again and again, and not worked on", *self.messages()]))
        broken = Q(state=Run.State.FAILED, error_code__in=_BROKEN)  # others were refused
        unfinished = Q(state=Run.State.RUNNING) | broken | Q(state=Run.State.QUEUED) & ~Q(error_code="")
        wrong = list(Run.objects.filter(unfinished).values_list("kind", "subject", "state", "error"))
        if wrong:
            raise Wrong("\n".join([f"runs didn't end well: {wrong}", *self.messages()]))

    def _work(self, run_id: int, kind: str, *, with_ends: bool) -> None:
        if not with_ends or self.draw.random() >= self.theme.ends or may_fail():
            runs.work_run(run_id, kind, clock=clock.now)
            return
        end: End = self.draw.choice(ENDS)
        before = len(self.faults.happened)
        with self.faults.one(end, reach=self.theme.reach):
            runs.work_run(run_id, kind, clock=clock.now)
        end_leases()
        for how, name in self.faults.happened[before:]:
            self.site.say(f"a worker of {kind} is {how} at {name}")
        if len(self.faults.happened) > before and self.draw.random() < 0.3:
            self.site.act()

    def _build(self, site: Site) -> None:
        enqueue_series_build(site.policy, at=self.site.at)
        self._work_due()
        site.policy.refresh_from_db()
        enqueue_series_build(site.policy, at=self.site.at)  # of what came while it was built
        self._work_due(with_ends=False)

    def _build_series(self) -> None:
        site, before = self.draw.choice(self.policies), len(self.faults.happened)
        self._build(site)
        if len(self.faults.happened) > before or self.draw.random() < 0.3:
            self._compare(from_nothing.series_differences(site, self.site.at))
            self._compare(invariants.lost_days(site.policy))

    def _build_feeds(self) -> None:
        for feed in UsageFeed.objects.select_related("policy").order_by("pk"):
            build_feed(feed.pk, at=self.site.at)
            self._compare(from_nothing.feed_differences(feed, self.site.at))

    def _tick(self) -> None:
        """Some of what is scheduled, twice now and then."""
        tasks = self.draw.choices(TASKS, k=self.draw.randint(1, len(TASKS)))
        for task in tasks:
            task()
        self._work_due()
        self.site.say("tick", [task.__name__ for task in tasks])

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
        open_ones = ChangeSet.objects.exclude(state__in=("published", "withdrawn")).order_by("-pk")
        for change_set in open_ones[:2]:
            self._compare(from_nothing.back_test_differences(change_set, self.site.at))
        if self.draw.random() < 0.3:
            self._compare(from_nothing.against_today_differences(site, self.site.at))

    def _jump(self) -> None:
        """The clock is ahead for a tick, in which some of what is scheduled is done."""
        right_at = self.site.at
        self.site.advance(self.draw.choice(AHEAD))
        self.site.say("the clock is ahead")
        for site in self.policies:
            queue_recompute(site.policy, at=self.site.at)
        if self.draw.random() < 0.5:
            build_series_stale(at=self.site.at)
        for feed in UsageFeed.objects.order_by("pk"):
            build_feed(feed.pk, at=self.site.at)
        self._work_due(with_ends=False)
        prune_snapshots(at=self.site.at)
        self.site.at = right_at
        self.site.advance(timedelta(minutes=1))
        self._note_clock()
        self.site.say("the clock is right again")
        build_series_stale(at=self.site.at)
        for site in self.policies:
            queue_recompute(site.policy, at=self.site.at)
        self._work_due(with_ends=False)
        prune_snapshots(at=self.site.at)
        self._compare(invariants.snapshots_ahead(self.site.at))
        if self.draw.random() < 0.5:
            self._build_feeds()

    def _restore(self) -> None:
        """Copy the database, or go back to what an earlier step copied: sources and jobs of after it are gone. Workers
        begin anew, or go on at another server.
        """
        if not self.kept or self.draw.random() < 0.5:
            self.kept.append((self.backups.back_up(), self.site.memory()))
            self.site.say("copy", len(self.kept))
            return
        number, is_failover = self.draw.randrange(len(self.kept)), self.draw.random() < 0.4
        name, memory = self.kept[number]
        self.backups.restore(name, is_failover=is_failover)
        self.site.remember(memory)
        self.revisions.forget()
        self._note_clock()
        if is_failover:
            store.poll()  # within a second
        self.site.say("failed over to" if is_failover else "restored", "copy", number + 1)

    def _restore_archive(self) -> None:
        """Make a backup as operators do, or restore one on an empty machine; some are interrupted, and then the same or
        another one is restored. What a restore says that it restored is there.
        """
        if not self.archives or self.draw.random() < 0.4:
            self.archives.append((self.backups.archive(self.site.at), self.site.memory()))
            self.site.say("archive", len(self.archives))
            return
        self.backups.empty()
        restored: Archive | None = None
        is_start_over = False
        for n_tries in range(1, 10):
            archive, memory = self.draw.choice(self.archives)
            before = len(self.faults.happened)
            try:
                if n_tries < 4 and self.draw.random() < 0.7:
                    with self.faults.one("killed", reach=3):
                        self.backups.restore_archive(archive, is_start_over=is_start_over)
                        restored = archive
                else:
                    self.backups.restore_archive(archive, is_start_over=is_start_over)
                    restored = archive
            except OtherRestoreUnfinished:
                is_start_over = self.draw.random() < 0.5  # or it tries until it has the same one
                self.site.say("refused to restore", archive.made.path.name)
                continue
            self.site.say("restored", archive.made.path.name, self.faults.happened[before:])
            if restored is not None:
                break
        else:
            self.backups.restore_archive(archive, is_start_over=True)
        self.site.remember(memory)
        self.revisions.forget()
        self._note_clock()
        has = contents()
        if has != archive.contents:
            self._compare([f"the restored backup had {archive.contents}, and the instance has {has}"])

    def _compare(self, differences: list[str]) -> None:
        self.counts["comparisons"] += 1
        if differences:
            raise Wrong(
                "\n".join(
                    [*differences, f"seed {self.seed} ({self.theme_name}), {dict(self.counts)}", *self.messages()]
                )
            )

    def messages(self) -> list[str]:
        return self.site.log[-15:]


def _name(step: Callable[[], None]) -> str:
    return step.__name__.strip("_")


def theme_of(seed: int) -> tuple[str, Theme]:
    return list(THEMES.items())[(seed - 1) % len(THEMES)]


def live(seed: int, steps: Sequence[int], backups: Backups) -> History:
    """The history of a seed with these of its steps, on a database that has nothing yet.

    Raises:
        Wrong: something doesn't hold.
    """
    with ExitStack() as around:
        around.enter_context(_drawn_bytes(seed))
        around.enter_context(_virtual_time())
        site = RandomSite(seed, is_late=theme_of(seed)[1].is_late)
        peer = around.enter_context(a_peer(site.policies[0], site.random, site.at))
        history = History(seed, backups, site, peer)
        around.enter_context(history.faults.everywhere())
        around.enter_context(history.broker.instead())
        try:
            for number in steps:
                history.n_steps += 1
                history.step(number)
            history.end()
        except Wrong as wrong:
            wrong.step = history.n_steps
            raise
        except Killed:  # pragma: no cover - it must not leave the workers
            raise AssertionError("a kill left its worker") from None
        return history


@contextmanager
def _drawn_bytes(seed: int) -> Iterator[None]:
    """Uids and secrets of a seed are the same whenever it is run."""
    with patch("os.urandom", random.Random(f"bytes {seed}").randbytes):
        yield


@contextmanager
def _virtual_time() -> Iterator[None]:
    """What a worker does between two steps doesn't depend on how fast this machine is."""
    ticks = SimpleNamespace(monotonic=itertools.count().__next__, perf_counter=time.perf_counter, sleep=time.sleep)
    with (
        patch.object(runs, "time", ticks),
        patch.object(concurrent_fetch, "PATIENCE_S", 60.0),
        patch.object(series_runs, "MOST_REBUILT_HOURS", _HOURS),
    ):
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
