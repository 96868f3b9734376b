"""The simulation finds faults that the product had: each mend is taken back, and a few histories find it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from apps.cli.backup import restoring
from apps.cli.stack.restore_check import UnfinishedRestore, unfinished_restore
from apps.federation.usage_feeds import feed_build
from apps.policies.changesets import change_sets
from apps.priorities import snapshot_retention
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.series import back_test_runs, builder, runs
from tests.simulation.history import THEMES, Wrong, live
from tests.simulation.restarts import Backups
from tests.simulation.test_seeds import _named, backups  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.deep, pytest.mark.timeout(3000)]
STEPS, SEEDS = int(os.environ.get("STEPS") or "200"), int(os.environ.get("SEEDS") or "6")


def keep_days_of_former_usage(patch: pytest.MonkeyPatch) -> None:
    """Days that are stored stay right, whatever comes later."""
    patch.setattr(runs, "earliest_change", lambda _watermarks: None)


def keep_snapshots_of_the_future(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_retention, "_delete_out_of_order", lambda _policy_id: 0)


def go_on_from_former_sums(patch: pytest.MonkeyPatch) -> None:
    """Sums that a build stored stay right, whatever came before the day at which another one goes on."""
    patch.setattr(builder, "earliest_change", lambda _watermarks: None)


def keep_back_tests_of_former_usage(patch: pytest.MonkeyPatch) -> None:
    """A stored back-test stays right until another day ends."""
    patch.setattr(back_test_runs, "holds", lambda *_args, **_more: True)


def let_feeds_go_by_any_clock(patch: pytest.MonkeyPatch) -> None:
    """Hours that are too old by a clock that is ahead are deleted, and the range of a feed isn't compared."""
    patch.setattr(feed_build, "believed", lambda at: at)
    for name in ("lacks_first", "exceeds"):
        patch.setattr(feed_build.FeedInputs, name, False)


def hold_all_restores_for_one(patch: pytest.MonkeyPatch) -> None:
    """An interrupted restore is continued with whatever backup comes next."""

    class Any(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, _other: object) -> bool:
            return True

        def __ne__(self, _other: object) -> bool:
            return False

    def of_any_backup() -> UnfinishedRestore | None:
        unfinished = unfinished_restore()
        return None if unfinished is None else replace(unfinished, digest=Any("any"))

    patch.setattr(restoring, "unfinished_restore", of_any_backup)


def merge_whatever_others_changed(patch: pytest.MonkeyPatch) -> None:
    """What was published since the page of an editor isn't compared with what it showed."""
    patch.setattr(change_sets, "conflicts_with_head", lambda _change_set, _policy: [])


def answer_without_the_age(patch: pytest.MonkeyPatch) -> None:
    """A snapshot is as good as new however long no worker has made another one."""
    patch.setattr(ServedSnapshot, "age_s", lambda _self, _at: 0.0)


# Each mend, the number of its fault or promise, and the theme whose histories find it.
MENDS = [
    pytest.param(go_on_from_former_sums, "builds that are resumed", id="W1"),
    pytest.param(go_on_from_former_sums, "drafts and late usage", id="W2"),
    pytest.param(keep_back_tests_of_former_usage, "drafts and late usage", id="W2-stored"),
    pytest.param(keep_days_of_former_usage, "builds that are resumed", id="days"),
    pytest.param(hold_all_restores_for_one, "restores", id="W6"),
    pytest.param(let_feeds_go_by_any_clock, "clocks ahead", id="W7"),
    pytest.param(keep_snapshots_of_the_future, "clocks ahead", id="W8"),
    pytest.param(merge_whatever_others_changed, "editors beside each other", id="promise 9"),
    pytest.param(answer_without_the_age, "outages", id="promise 6"),
]


@pytest.mark.parametrize(("take_back", "theme"), MENDS)
def test_a_mend_that_is_taken_back_is_missed(
    take_back: Callable[[pytest.MonkeyPatch], None],
    theme: str,
    backups: Backups,  # noqa: F811
) -> None:
    nothing = backups.back_up()
    began, began_cpu = time.monotonic(), time.process_time()
    first_seed = 1 + list(THEMES).index(theme)
    for seed in range(first_seed, first_seed + SEEDS * len(THEMES), len(THEMES)):
        with pytest.MonkeyPatch.context() as patch:
            take_back(patch)
            wrong = _wrong(seed, STEPS, backups)
        backups.begin_anew(nothing)
        if wrong is None:
            continue
        took = f"{time.process_time() - began_cpu:.0f} CPU s, {time.monotonic() - began:.0f} s"
        print(f"{take_back.__name__}: seed {seed}, step {wrong.step}, {took}: {str(wrong).splitlines()[0]}", flush=True)
        assert _wrong(seed, wrong.step, backups) is None, "the same history is right with the mend"
        return
    pytest.fail(f"{SEEDS} histories of {STEPS} steps missed it")


def _wrong(seed: int, n_steps: int, copies: Backups) -> Wrong | None:
    try:
        live(seed, range(n_steps), copies)
    except Wrong as wrong:
        return wrong
    return None
