"""Whose turn it is where a pass does a part of the work: what failed last comes last, so that it blocks no other."""

from typing import Callable, Iterable, List, Sequence, TypeVar

from agent.state import Table

Item = TypeVar("Item")


def sort(table: Table, fact: str, items: Iterable[Item], key_of: Callable[[Item], str]) -> List[Item]:
    """Those that never failed first, in their order; then by when they failed, the longest ago first."""
    failed = table.facts.get(fact, {})
    return sorted(items, key=lambda item: int(failed.get(key_of(item), 0)))


def first(
    table: Table, fact: str, items: Iterable[Item], key_of: Callable[[Item], str], most: int, most_failed: int
) -> List[Item]:
    """The first `most` of `sort`. Where that is more than one, those that failed have a tenth of it, one at least and
    `most_failed` at most: else they would never have a turn while there are always others.
    """
    in_turn = sort(table, fact, items, key_of)
    failed = table.facts.get(fact, {})
    n_fresh = sum(key_of(item) not in failed for item in in_turn)
    n_failed = min(len(in_turn) - n_fresh, most_failed, max(most // 10, int(most > 1)))
    n = min(n_fresh, most - n_failed)
    return [*in_turn[:n], *in_turn[n_fresh : n_fresh + most - n]]


def note(table: Table, fact: str, failed: Sequence[str], ended: Iterable[str]) -> None:
    """Note what failed in this pass; `ended` is done, or is no longer to be done. The caller saves the table."""
    known = table.facts.get(fact, {})
    turn = max(known.values(), default=0) + 1
    are_ended = set(ended)
    left = {key: at for key, at in known.items() if key not in are_ended}
    table.facts[fact] = {**left, **dict.fromkeys(failed, turn)}
    if not table.facts[fact]:
        del table.facts[fact]
