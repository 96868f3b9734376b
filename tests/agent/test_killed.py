"""The agent is killed at every step of a pass, from inside the command that it runs; the next pass ends as ever."""

from __future__ import annotations

import pytest

from tests.agent.fakes import Place
from tests.agent.test_passes import VALUES

# show config, squeue, sprio, three updates, sshare
CALLS = [pytest.param(call, marks=() if call in (1, 4) else pytest.mark.deep) for call in range(1, 8)]


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.deep), "after"])
@pytest.mark.parametrize("at", CALLS)
def test_the_next_pass_ends_in_the_same_state(place: Place, at: int, when: str) -> None:
    place.scheduler.kill_caller(at, when)
    assert place.run().returncode == -9
    assert place.run().returncode == 0
    assert place.scheduler.values() == VALUES
    assert {job: row[:2] for job, row in place.table()["rows"].items()} == {job: [v, 1] for job, v in VALUES.items()}
    place.scheduler.forget_calls()
    place.run()
    assert place.scheduler.calls("scontrol", "update") == []


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.deep), "after"])
@pytest.mark.parametrize("at", [pytest.param(4, marks=pytest.mark.deep), 6])
def test_every_changed_value_is_reset(place: Place, at: int, when: str) -> None:
    place.scheduler.kill_caller(at, when)
    place.run()
    assert place.run("reset-values", "--kind", "slurm").returncode == 0
    assert set(place.scheduler.values().values()) <= {0, None}


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.deep), "after"])
@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.deep), 3])
def test_a_killed_reset_is_repeated(place: Place, at: int, when: str) -> None:
    place.run()
    place.scheduler.forget_calls()
    place.scheduler.kill_caller(at, when)
    assert place.run("reset-values").returncode == -9
    assert place.run("reset-values").returncode == 0
    assert set(place.scheduler.values().values()) == {0}
    assert place.table()["rows"] == {}
