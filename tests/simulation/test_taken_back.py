"""The simulation finds faults that the product had: each mend is taken back, and a few histories find it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from apps.priorities import snapshot_retention
from apps.series import runs
from tests.simulation.history import Wrong, live
from tests.simulation.restarts import Backups
from tests.simulation.test_seeds import _named, backups  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.deep, pytest.mark.timeout(3000)]
STEPS, SEEDS = 250, int(os.environ.get("SEEDS") or "12")


def keep_days_of_former_usage(patch: pytest.MonkeyPatch) -> None:
    """Days that are stored stay right, whatever comes later."""
    patch.setattr(runs, "earliest_change", lambda _watermarks: None)


def keep_snapshots_of_the_future(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_retention, "_delete_out_of_order", lambda _policy_id: 0)


@pytest.mark.parametrize(
    "take_back",
    [
        keep_days_of_former_usage,
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
