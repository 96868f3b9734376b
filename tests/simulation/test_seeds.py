"""Whatever happens to a site, what it has stored is what it would make of its present state from nothing.

`make simulate SEED=7` lives through the history of that seed once more, and shortens it if it fails. SEEDS, STEPS and
MINUTES choose how many histories, how long they are, and when none begins any more.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from django.conf import LazySettings

from apps.accounts import account_index
from tests.simulation.history import Wrong, live, shortest
from tests.simulation.restarts import Backups

pytestmark = pytest.mark.django_db(transaction=True)

SEED = int(os.environ.get("SEED") or "1")
SEEDS = int(os.environ.get("SEEDS") or "4")
STEPS = int(os.environ.get("STEPS") or "250")
MINUTES = float(os.environ.get("MINUTES") or "inf")
TRIES = int(os.environ.get("TRIES") or "0")  # to shorten what fails
_ENDS_AT = time.monotonic() + 60 * MINUTES


@pytest.fixture
def backups() -> Iterator[Backups]:
    made = Backups()
    yield made
    made.drop_all()


@pytest.fixture(autouse=True)
def _named(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    monkeypatch.setattr(account_index, "MANY", 2)  # accounts are kept in files, as on a large site
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-20T12:00:02+00:00")


def lived(seed: int, steps: Sequence[int], backups: Backups, *, tries: int = TRIES) -> Counter[str]:
    """How often each thing happened; a history that fails is shortened, and told with the command that repeats it."""
    nothing = backups.back_up()

    def fails(fewer: Sequence[int]) -> bool:
        backups.restore(nothing)
        try:
            live(seed, fewer, backups)
        except Wrong as wrong:
            last.append(wrong)
            return True
        return False

    last: list[Wrong] = []
    began = time.monotonic()
    try:
        history = live(seed, steps, backups)
    except Wrong as wrong:
        last.append(wrong)
        left = shortest(seed, steps, fails, tries) if tries else list(steps)
        again = f"make simulate SEED={seed} STEPS={len(steps)} TRIES=60"
        raise Wrong(f"{last[-1]}\n{len(left)} steps are left: {left[:80]}\n{again}") from None
    kills = {"kills": len(history.killed), "points": len(set(history.killed))}
    print(f"seed {seed}: {len(steps)} steps in {time.monotonic() - began:.0f} s, {dict(history.counts)}, {kills}")
    return history.counts + Counter(kills)


def test_a_short_history_leaves_what_would_be_made_from_nothing(backups: Backups) -> None:
    lived(7, range(60), backups)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_a_long_history_leaves_what_would_be_made_from_nothing(seed: int, backups: Backups) -> None:
    if time.monotonic() > _ENDS_AT:
        pytest.skip(f"the {MINUTES:g} minutes are over")
    counts = lived(seed, range(STEPS), backups)
    assert counts["comparisons"] > STEPS / 10
    assert counts["kills"]


def test_a_failure_is_shortened_to_the_steps_that_it_needs() -> None:
    left = shortest(1, range(40), lambda steps: {3, 17, 31} <= set(steps), most_tries=200)
    assert left == [3, 17, 31]
