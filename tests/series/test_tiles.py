"""Tiles: a month of any number of entries is read as it was written, and slots never change."""

from __future__ import annotations

from datetime import date
from uuid import UUID

import numpy as np
import pytest

from apps.core.blobs import CorruptBlob
from apps.policies.models import Policy
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of
from apps.series.tiles import (
    BLOCK,
    DTYPES,
    MONTH_TILES,
    DayValues,
    Month,
    Slots,
    empty_month,
    find_slots,
    put_day,
    read_month,
    read_tiles,
    widen,
    write_month,
)
from tests.priority_site import new_site

pytestmark = pytest.mark.django_db
MONTH = date(2026, 11, 1)


@pytest.fixture
def policy() -> Policy:
    return new_site().policy


def month_of(n_days: int, n_slots: int) -> Month:
    """Each number tells its day, slot and field."""
    month, slots = empty_month(n_days, n_slots), np.arange(n_slots)
    for day in range(n_days):
        columns = {name: (day * 7 + slots * 3 + n).astype(kind) for n, (name, kind) in enumerate(DTYPES.items())}
        put_day(month, day, slots, DayValues(columns, 0.0, 0.0))
    return month


def same(one: Month, other: Month) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("n_slots", [1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_month_is_read_as_it_was_written(policy: Policy, n_slots: int) -> None:
    month = month_of(4, n_slots)
    n_blocks = month["used"].shape[1] // BLOCK
    assert n_blocks == (n_slots + BLOCK - 1) // BLOCK
    write_month(policy, MONTH, month_of(2, n_slots))
    write_month(policy, date(2026, 12, 1), month_of(1, n_slots))
    write_month(policy, MONTH, month)
    assert same(read_month(policy, MONTH, n_days=4, n_slots=n_slots, least=4), month)
    tiles = read_tiles(policy, [MONTH], [n_blocks - 1, n_blocks], tiles=MONTH_TILES)
    assert list(tiles) == [(n_blocks - 1, MONTH)]
    assert np.array_equal(tiles[n_blocks - 1, MONTH]["used"], month["used"][:, -BLOCK:])
    longer = read_month(policy, MONTH, n_days=6, n_slots=n_slots)
    assert np.array_equal(longer["used"][:4], month["used"])
    assert not longer["used"][4:].any()
    shorter = read_month(policy, MONTH, n_days=3, n_slots=n_slots)
    assert np.array_equal(shorter["flags"], month["flags"][:3])
    with pytest.raises(CorruptBlob, match="4 of 5"):
        read_month(policy, MONTH, n_days=6, n_slots=n_slots, least=5)


def test_a_month_that_was_never_stored_is_empty_and_a_stored_one_is_whole(policy: Policy) -> None:
    assert not any(values.any() for values in read_month(policy, MONTH, n_days=3, n_slots=5).values())
    with pytest.raises(CorruptBlob, match="missing"):
        read_month(policy, MONTH, n_days=3, n_slots=5, least=1)


def test_a_month_gets_as_many_columns_as_new_entries_need_and_keeps_its_numbers() -> None:
    month = month_of(2, 3)
    assert widen(month, BLOCK) is month
    wider = widen(month, BLOCK + 1)
    assert {values.shape for values in wider.values()} == {(2, 2 * BLOCK)}
    for name, values in wider.items():
        assert np.array_equal(values[:, :BLOCK], month[name])
        assert not values[:, BLOCK:].any()


def tree_of(*numbers: int) -> TreeColumns:
    root = Node(UUID(int=1), None, "root")
    return columns_of([root, *(Node(UUID(int=n), root.uid, f"e{n:03}", is_group=False) for n in numbers)])


def test_an_entry_keeps_the_slot_that_it_got_first(policy: Policy) -> None:
    slots = Slots(policy)
    assert slots.of(tree_of(5, 7)).tolist() == [0, 1, 2]
    slots.store_new()
    again = Slots(policy)
    assert again.of(tree_of(3, 7, 9)).tolist() == [0, 3, 2, 4]
    again.store_new()
    again.store_new()
    assert len(Slots(policy)) == 5
    uids = [UUID(int=n) for n in (9, 5, 6)]
    assert find_slots(policy, uids) == {uids[0]: 4, uids[1]: 1}
