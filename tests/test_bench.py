"""What the benches share."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from apps.core import clock
from bench.clock import stopped_clock

AT = datetime(2026, 6, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize("clock_before", [None, "2026-01-31T12:00:00+00:00"])
def test_a_bench_that_stops_the_clock_restores_the_environment(
    monkeypatch: pytest.MonkeyPatch, clock_before: str | None
) -> None:
    if clock_before is None:
        monkeypatch.delenv(clock.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(clock.VARIABLE, clock_before)
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError):
        fail_under_a_stopped_clock()
    assert dict(os.environ) == before


def fail_under_a_stopped_clock() -> None:
    with stopped_clock(AT):
        assert clock.now() == AT
        print(1 / 0)
