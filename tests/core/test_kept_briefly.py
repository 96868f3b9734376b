"""What is kept briefly is made once, by one of the threads that ask for it, and gone after a minute."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Condition, Thread, get_ident
from unittest.mock import patch

import pytest

from apps.core import kept_briefly
from apps.core.errors import NotFound
from apps.core.kept_briefly import KeptBriefly

N_THREADS = 8
LONGEST_S = 60.0  # of a test that fails


def made_of(kept: KeptBriefly[str], key: str, *, size: float = 1.0) -> int:
    """How often it was made for this call."""
    made: list[str] = []

    def make() -> str:
        made.append(key)
        return key.upper()

    assert kept.get(key, make, size=size) == key.upper()
    return len(made)


def test_it_is_made_once_and_the_oldest_goes_first() -> None:
    kept: KeptBriefly[str] = KeptBriefly(3)
    assert [made_of(kept, key) for key in "aabbacc"] == [1, 0, 1, 0, 0, 1, 0]
    assert made_of(kept, "large", size=2) == 1
    assert [made_of(kept, key) for key in ("large", "c")] == [0, 0], "a and b made room"
    assert [made_of(kept, "huge", size=4), made_of(kept, "huge", size=4)] == [1, 1]
    kept.clear()
    assert made_of(kept, "c") == 1


def test_nothing_stays_for_long() -> None:
    with patch.object(kept_briefly, "KEPT_S", 0.0):
        kept: KeptBriefly[str] = KeptBriefly(3)
        assert [made_of(kept, "a"), made_of(kept, "a")] == [1, 1]
        kept_briefly.drop_old()
        assert len(kept._kept) == 0


class WatchedKey:
    """A key that knows how many threads have looked for it."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._changed = Condition()

    def __hash__(self) -> int:
        with self._changed:
            self._threads.add(get_ident())
            self._changed.notify_all()
        return 1

    def wait_for_all(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._threads) == N_THREADS, LONGEST_S)


def ask_by_threads(kept: KeptBriefly[str], key: WatchedKey, make: Callable[[], str]) -> list[str]:
    def ask(_number: int) -> str:
        together.wait()
        try:
            return kept.get(key, make, size=1)
        except NotFound as error:
            return error.message

    together = Barrier(N_THREADS)
    with ThreadPoolExecutor(N_THREADS) as threads:
        return list(threads.map(ask, range(N_THREADS)))


def test_threads_that_ask_for_the_same_make_it_once() -> None:
    key, n_made = WatchedKey(), 0

    def make() -> str:
        nonlocal n_made
        n_made += 1
        key.wait_for_all()
        return "made"

    assert ask_by_threads(KeptBriefly(3), key, make) == ["made"] * N_THREADS
    assert n_made == 1
    assert len(kept_briefly._making) == 0, "nothing is left of it"


def test_what_fails_is_tried_by_the_next_thread() -> None:
    key, outcomes = WatchedKey(), iter([NotFound("gone"), None])

    def make() -> str:
        error = next(outcomes)
        key.wait_for_all()
        if error:
            raise error
        return "made"

    assert sorted(ask_by_threads(KeptBriefly(3), key, make)) == ["gone"] + ["made"] * (N_THREADS - 1)
    assert len(kept_briefly._making) == 0


@pytest.mark.parametrize("is_same_place", [True, False])
def test_threads_whose_values_need_each_other_do_not_wait_for_ever(*, is_same_place: bool) -> None:
    one: KeptBriefly[str] = KeptBriefly(3)
    places = {"a": one, "b": one if is_same_place else KeptBriefly(3)}
    both_make, answers = Barrier(2), dict[str, str]()

    def make(key: str, needed: str) -> str:
        both_make.wait()
        return key + places[needed].get(needed, lambda: f"({needed})", size=1)

    def ask(key: str, needed: str) -> None:
        answers[key] = places[key].get(key, lambda: make(key, needed), size=1)

    threads = [Thread(target=ask, args=pair, daemon=True) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert set(answers) == {"a", "b"}
    assert any(answers[key] == f"{key}({needed})" for key, needed in (("a", "b"), ("b", "a")))
