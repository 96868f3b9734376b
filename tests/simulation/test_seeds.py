"""Whatever happens to a site, what it has stored is what it would make of its present state from nothing.

`make simulate SEED=7` lives through the history of that seed once more, and shortens it if it fails (TRIES). SEEDS and
STEPS choose how many histories, and how long they are. With MINUTES, two processes live one after the other as long as
there is time.
"""

from __future__ import annotations

import itertools
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
MINUTES = float(os.environ.get("MINUTES") or "0")
TRIES = int(os.environ.get("TRIES") or "0")  # to shorten what fails
LANES = 2 if MINUTES else SEEDS
_APART = 1_000 if MINUTES else 1  # so that each lane has all themes


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


def lived(seed: int, steps: Sequence[int], backups: Backups, nothing: str, *, tries: int = TRIES) -> Counter[str]:
    """How often each thing happened; a history that fails is shortened, and printed with the command that repeats it.

    nothing: a copy of the database as it is, which it is again afterwards.
    """

    def fails(fewer: Sequence[int]) -> bool:
        backups.begin_anew(nothing)
        try:
            live(seed, fewer, backups)
        except Wrong as wrong:
            last.append(wrong)
            return True
        return False

    last: list[Wrong] = []
    began, began_cpu = time.monotonic(), time.process_time()
    try:
        history = live(seed, steps, backups)
    except Wrong as wrong:
        last.append(wrong)
        left = shortest(seed, steps, fails, tries) if tries else list(steps)
        again = f"make simulate SEED={seed} STEPS={len(steps)} TRIES=60"
        raise Wrong(f"{last[-1]}\n{len(left)} steps are left: {left[:80]}\n{again}") from None
    backups.begin_anew(nothing)
    happened = history.faults.happened
    ends = Counter(str(end) for end, _point in happened)
    ends["points"] = len({point for _end, point in happened})
    ends |= Counter(lost=history.broker.n_lost, repeated=history.broker.n_repeated)
    took = f"{time.process_time() - began_cpu:.0f} CPU s, {time.monotonic() - began:.0f} s"
    print(f"seed {seed}, {history.theme_name}: {len(steps)} steps in {took}, {dict(history.counts)}, {dict(ends)}")
    return history.counts + ends


def test_a_short_history_leaves_what_would_be_made_from_nothing(backups: Backups) -> None:
    lived(8, range(40), backups, backups.back_up())


@pytest.mark.deep
@pytest.mark.timeout(900 + 60 * MINUTES)
@pytest.mark.parametrize("lane", range(LANES))
def test_long_histories_leave_what_would_be_made_from_nothing(lane: int, backups: Backups) -> None:
    ends_at, nothing = time.monotonic() + 60 * MINUTES, backups.back_up()
    counts: Counter[str] = Counter()
    for seed in itertools.count(SEED + lane * _APART):
        counts += lived(seed, range(STEPS), backups, nothing)
        if time.monotonic() >= ends_at:
            break
    assert counts["comparisons"] > STEPS


@pytest.mark.deep
def test_a_seed_gives_the_same_history_each_time(backups: Backups) -> None:
    nothing = backups.back_up()

    def printed() -> tuple[list[str], object, object]:
        history = live(5, range(60), backups)
        backups.begin_anew(nothing)
        return history.site.log, history.faults.happened, history.counts

    assert printed() == printed()


def test_a_failure_is_shortened_to_the_steps_that_it_needs() -> None:
    left = shortest(1, range(40), lambda steps: {3, 17, 31} <= set(steps), most_tries=200)
    assert left == [3, 17, 31]
