"""Geometry of the bullet bar, against the formulas of the design."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.web.svg import bars
from apps.web.svg.bars import State, Tolerance

shares = st.floats(0, 1)


def test_the_reference_row_matches_the_design() -> None:
    """VO-A of the reference tree: 38.2 % used, a target of 30 %, siblings on a scale to 100 %."""
    bar = bars.draw(actual=0.382, target=0.30, maximum=1.0, state=State.OVER)
    assert (bar.track_width, bar.band_x, bar.band_width) == (118, 32.9, 7.1)
    assert (bar.bar_width, bar.tick_x) == (45.1, 35.4)
    assert bar.over_path is None


def test_tolerance_is_a_tenth_of_the_target_and_at_least_half_a_point() -> None:
    assert bars.USUAL_TOLERANCE.around(0.3) == pytest.approx(0.03)
    assert bars.USUAL_TOLERANCE.around(0.01) == 0.005
    assert Tolerance(0.2, 0.01).around(0.5) == 0.1


def test_siblings_share_the_smallest_scale_that_fits_all() -> None:
    assert bars.share_scale([(0.38, 0.30), (0.62, 0.70)]) == 1.0
    assert bars.share_scale([(0.38, 0.40), (0.41, 0.30)]) == 0.5
    assert bars.share_scale([(0.0, 0.004)]) == 0.01
    assert bars.share_scale([]) == 1.0


def test_relative_to_the_target_all_ticks_are_aligned() -> None:
    ticks = {
        bars.draw(actual=0.1, target=t, maximum=bars.against_target(t), state=State.ON).tick_x
        for t in (0.64, 0.08, 0.008)
    }
    assert len(ticks) == 1


def test_a_value_beyond_the_scale_has_an_arrow() -> None:
    bar = bars.draw(actual=0.41, target=0.25, maximum=0.4, state=State.OVER)
    assert bar.over_path == "M114 2L120 8L114 14Z"
    assert bar.bar_width == 118


def test_missing_data_is_not_drawn_as_zero() -> None:
    assert bars.draw(actual=None, target=0.3, maximum=1.0, state=State.NO_DATA).bar_width is None
    assert bars.draw(actual=0.0, target=0.3, maximum=1.0, state=State.IDLE).bar_width == 1.5


def test_a_draft_shows_the_original_target() -> None:
    bar = bars.draw(actual=0.2, target=0.4, before=0.3, maximum=0.5, state=State.UNDER)
    assert (bar.was_x, bar.tick_x) == (70.8, 94.4)


def test_tenfold_targets_need_relative_bars() -> None:
    assert bars.differ_tenfold([0.64, 0.06])
    assert not bars.differ_tenfold([0.5, 0.05])
    assert not bars.differ_tenfold([0.5, 0.0])


@given(actual=shares, target=shares, others=st.lists(st.tuples(shares, shares)), width=st.sampled_from([120, 200, 288]))
def test_every_part_stays_inside_the_bar(
    actual: float, target: float, others: list[tuple[float, float]], width: int
) -> None:
    maximum = bars.share_scale([(actual, target), *others])
    bar = bars.draw(actual=actual, target=target, maximum=maximum, state=State.ON, width=width)
    assert bar.bar_width is not None
    assert bar.band_x is not None
    assert bar.band_width is not None
    assert bar.tick_x is not None
    assert 0 <= bar.bar_width <= width - 2
    assert bar.band_x >= 0
    assert bar.band_x + bar.band_width <= width + 0.1
    assert 0 <= bar.tick_x <= width - 2
    assert bar.band_width >= 2 - 0.05
    assert all(map(math.isfinite, (bar.bar_width, bar.band_x, bar.tick_x)))
