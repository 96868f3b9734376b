"""A site and an authority are restored from a backup of last week; their peers saw this week. All by their services."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.ring.ring import START
from tests.ring.test_small_ring import SITES, Small, small  # noqa: F401 - fixture

HERE, PEER = SITES
LEAF = "P-A1"
HOUR_S = 3_600
pytestmark = [pytest.mark.django_db, pytest.mark.deep, pytest.mark.timeout(600)]


def pass_hours(world: Small, hours: float) -> None:
    world.ring.began_at += timedelta(hours=hours)
    for one in world.ring.instances.all.values():
        one.set_clock(world.ring.began_at)


def ran(world: Small, site: str, number: int, hours: float) -> int:
    """A job of one core that has ended by now; how many records of it are new."""
    end_s = world.ring.began_at.timestamp()
    begin_s = end_s - hours * HOUR_S
    n_new: int = world.ring.instances[site].request("take", rows=[[number, LEAF, begin_s, begin_s, end_s, 1, None]])
    return n_new


def back_up(world: Small, name: str, folder: Path) -> Path:
    file = folder / f"{name}.backup"
    world.ring.instances[name].request("manage", arguments=["backup", str(file)])
    return file


def look(world: Small, rounds: int = 3) -> None:
    """All sites look at each other, and again when more is due."""
    for _ in range(rounds):
        pass_hours(world, 0.25)
        world.ring.instances.tell_each(SITES, "look")
    world.ring.recompute()


def core_hours(world: Small) -> dict[str, float]:
    """Of the project at each site: what ran there, and what its peer says."""
    return {name: round(world.ring.used[name][LEAF] / HOUR_S, 3) for name in SITES}


def target_of(world: Small, name: str) -> float:
    table: str = world.ring.instances[name].request(
        "manage", arguments=["export_policy", "--policy", "grid", "--format", "csv"]
    )
    (row,) = [line for line in table.splitlines() if f'/VO-A/{LEAF}"' in line]
    return float(row.split(",")[2])


@pytest.mark.fault("F27")
def test_a_restored_site_agrees_with_peers_that_saw_this_week(small: Small, tmp_path: Path) -> None:  # noqa: F811
    instances = small.ring.instances
    pass_hours(small, 24)
    assert (ran(small, HERE, 1, 5), ran(small, PEER, 1, 2)) == (1, 1)
    look(small)
    assert core_hours(small) == {HERE: 7, PEER: 7}
    backups = {name: back_up(small, name, tmp_path) for name in (HERE, "vo-a")}

    # This week, which the backups lack.
    pass_hours(small, 72)
    assert (ran(small, HERE, 2, 10), ran(small, PEER, 2, 20)) == (1, 1)
    instances["vo-a"].request("change_shares", shares={f"/VO-A/{LEAF}": 33})
    assert "version 2 (new)" in small.publish()
    look(small)
    assert core_hours(small) == {HERE: 37, PEER: 37}
    assert {target_of(small, name) for name in (*SITES, "vo-a")} == {33}

    for name, file in backups.items():
        instances.restore(name, file)
    look(small)
    assert core_hours(small) == {HERE: 27, PEER: 27}, "both count what the restored site has, and no more"

    # The authority goes on with numbers that nobody has seen, and its peers with it.
    instances["vo-a"].request("change_shares", shares={f"/VO-A/{LEAF}": 44})
    assert "version 10000" in small.publish()
    look(small)
    assert {target_of(small, name) for name in (*SITES, "vo-a")} == {44}

    # What ran this week is collected again, and counts once.
    assert ran(small, HERE, 2, 10) == 1
    look(small)
    assert core_hours(small) == {HERE: 37, PEER: 37}
    remotes = [each for listed in instances.tell_each(SITES, "remotes").values() for each in listed.values()]
    assert len(remotes) == 4
    assert {(each["state"], each["error"], each.get("held", 0)) for each in remotes} == {("active", "", 0)}
    assert instances.tell_each(SITES, "failed_runs") == {name: [] for name in SITES}
    assert small.ring.began_at > START
