"""A real Slurm is switched on and goes back: written as listed, its own fair share orders the jobs as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.going_back import lines_to_restore
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import tag_of
from apps.contrib.schedulers.services import request_reset
from apps.contrib.schedulers.switch_on import SchedulerScope, switch_on
from apps.core.errors import Conflict
from tests.instants import AT
from tests.real_schedulers import slurm_site
from tests.real_schedulers.test_agent_follows import (
    USERS,
    RunPass,
    agent_for,  # noqa: F401 - fixture
    listed,
    order_of_site,
    wait_until,
)
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db]
USED = {("alice", "physics"): 100.0, ("bob", "physics"): 90_000.0, ("carol", "biology"): 20_000.0}  # in Slurm itself


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_after_a_reset_and_the_listed_lines_the_order_is_slurms_own_again(
    release: str,
    computed_site: Site,
    agent_for: Callable[..., RunPass],  # noqa: F811 - fixture
    tmp_path: Path,
) -> None:
    (tmp_path / "slurm").mkdir()
    with slurm_site.running_slurm(tmp_path / "slurm", users=tuple(USERS), release=release) as slurm:
        slurm.add_tree({"physics": (60, {"alice": 2, "bob": 1}), "biology": (40, {"carol": 1})})
        slurm.set_usage({(group, user): seconds for (user, group), seconds in USED.items()})
        slurm.run("scontrol", "update", "nodename=node1", "state=drain", "reason=test")  # nothing starts, nobody uses
        jobs = {user: slurm.submit(user, group, seconds=60) for user, group in USERS.items()}

        def priorities() -> Mapping[str, int]:
            by_job = listed(slurm, list(jobs.values()))
            return {user: by_job[job] for user, job in jobs.items()}

        def order() -> list[str]:
            return sorted(jobs, key=lambda user: -priorities()[user])

        wait_until(lambda: max(priorities().values()) > 10_000)
        before, own = priorities(), order()
        assert own != order_of_site(), "both orders differ, so that one can be told from the other"
        run_pass = agent_for(slurm.bin, mode="shadow")
        run_pass()
        with pytest.raises(Conflict, match="double_counting"):
            _switch_on()
        slurm.configure(PriorityWeightFairshare="0")
        run_pass()
        _switch_on()
        run_pass()
        wait_until(lambda: order() == order_of_site())

        request_reset(name="c1", at=AT, actor=SYSTEM)
        run_pass()
        assert len({*priorities().values()}) == 1, "without the lines no fair share is left"
        (line,) = lines_to_restore(Scheduler.objects.get())
        name, _, value = line.line.partition("=")
        assert (line.line, line.is_known) == ("PriorityWeightFairshare=100000", True)
        slurm.configure(**{name: value})
        wait_until(lambda: order() == own)
        print(f"\nbefore {before}, afterwards {priorities()}")
        run_pass()
        (line,) = lines_to_restore(Scheduler.objects.get())
        assert line.is_back


def _switch_on() -> None:
    tag = tag_of(Scheduler.objects.get())
    switch_on(SchedulerScope(everything=True), name="c1", tag=tag, at=AT, actor=SYSTEM)
