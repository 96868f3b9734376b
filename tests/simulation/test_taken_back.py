"""The simulation finds faults that the product had: each mend is taken back, and a few histories find it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from apps.federation.usage_feeds import feed_build
from apps.priorities import snapshot_retention
from apps.series import builder, runs
from tests.simulation.history import Wrong, live
from tests.simulation.restarts import Backups
from tests.simulation.test_seeds import _named, backups  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.deep, pytest.mark.timeout(3000)]
STEPS, SEEDS = 250, int(os.environ.get("SEEDS") or "12")


def resume_with_former_sums(patch: pytest.MonkeyPatch) -> None:
    """Sums of a build are used whatever came since they were read."""
    patch.setattr(builder, "earliest_change", lambda _watermarks: None)


def keep_days_of_former_usage(patch: pytest.MonkeyPatch) -> None:
    """Days that are stored stay right, whatever comes later."""
    patch.setattr(runs, "earliest_change", lambda _watermarks: None)


def build_feeds_by_the_raw_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(feed_build, "believed", _raw)


def keep_snapshots_of_the_future(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_retention, "_delete_out_of_order", lambda _policy_id: 0)


def _raw(at: datetime) -> datetime:
    return at


@pytest.mark.parametrize(
    "take_back",
    [
        resume_with_former_sums,
        keep_days_of_former_usage,
        build_feeds_by_the_raw_clock,
        keep_snapshots_of_the_future,
    ],
)
def test_a_mend_that_is_taken_back_is_missed(
    take_back: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    backups: Backups,  # noqa: F811
) -> None:
    take_back(monkeypatch)
    nothing = backups.back_up()
    began = time.monotonic()
    for seed in range(1, SEEDS + 1):
        try:
            live(seed, range(STEPS), backups)
        except Wrong as wrong:
            first = str(wrong).splitlines()[0]
            print(f"{take_back.__name__}: seed {seed}, {time.monotonic() - began:.0f} s: {first}")
            return
        backups.restore(nothing)
    pytest.fail(f"{SEEDS} histories of {STEPS} steps missed it")
