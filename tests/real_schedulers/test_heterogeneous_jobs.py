"""A component of a heterogeneous job on a real Slurm is found by the number that squeue prints of it."""

from __future__ import annotations

import pytest

from agent import site_commands
from agent.adapters.slurm import QUEUE_COLUMNS, parse_queue
from agent.report import queue_rows
from apps.contrib.schedulers.queue_table import read_queue
from tests.real_schedulers.slurm_site import TREE, SlurmSite

pytestmark = pytest.mark.schedulers
PARTS = "#SBATCH hetjob\n".join(f"#SBATCH --ntasks={n}\n" for n in (1, 2, 3))
SCRIPT = f"#!/bin/sh\n{PARTS}sleep 1\n"


@pytest.mark.deep
def test_each_component_is_found_as_squeue_prints_it(slurm: SlurmSite) -> None:
    slurm.load(TREE)
    asked = ("--parsable", "--hold", "--uid=ann", "--account=hep", "--chdir=/tmp", "--output=/dev/null")
    leader = slurm.run("sbatch", *asked, stdin=SCRIPT).strip()
    after = slurm.submit("bob", "hep", "--hold")
    listing = slurm.run("env", site_commands.SECONDS, "squeue", "--noheader", "--all", f"--format={QUEUE_COLUMNS}")
    table = read_queue(queue_rows(parse_queue(listing, {}, "sitefactor").jobs, {}))
    printed = {number: job for number, job in slurm.queue("%i", "%A") if number != after}
    print(f"\n{printed}, then {after}")
    assert printed.keys() == {f"{leader}+{n}" for n in range(3)}
    for number, job in printed.items():
        i = table.index_of(number)
        assert i is not None
        assert table.job[i] == job
    assert table.index_of(f"{leader}+3") is None, "the next job is bob's"
