"""After a restart of slurmctld some algorithms of Slurm count no usage until jobs run: why their numbers differ."""

from __future__ import annotations

import numpy as np
import pytest

from agent import site_commands
from agent.adapters.slurm import parse_shares
from apps.contrib.schedulers.own_values import OwnValue, read_values
from apps.contrib.schedulers.shadow_differences import Comparison, Ours, build_their_tree, compare
from apps.engine.algorithms import compute, read_algorithm
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite
from tests.real_schedulers.test_slurm_deep_trees import FLAGS

pytestmark = pytest.mark.schedulers
USED = {("hep", "ann"): 90_000.0, ("atlas2", "cat"): 20_000.0, ("bio", "eve"): 5_000.0, ("lab", "fay"): 700.0}


@pytest.mark.deep
@pytest.mark.parametrize("algorithm", FLAGS)
def test_every_difference_after_a_restart_has_a_reason_that_predicts_it(slurm: SlurmSite, algorithm: str) -> None:
    slurm.load(TREE)
    slurm.configure(PriorityFlags=FLAGS[algorithm], PriorityDecayHalfLife="3650-0")
    slurm.set_usage(USED)
    rows = read_values(parse_shares(slurm.run(*site_commands.SSHARE), CLUSTER))
    assert max(row.raw_usage for row in rows) > 0, "the usage is there"
    compared = beside_ours(rows, algorithm)
    reasons = {one.reason for one in compared.differences}
    print(f"\n{algorithm}: largest {compared.largest:.6f}, {sorted(reasons)}")
    assert reasons <= {"none", "rounding", "restart"}
    assert ("restart" in reasons) == (compared.n_equal < compared.n_users)


def beside_ours(rows: list[OwnValue], algorithm: str) -> Comparison:
    """Our numbers from the scheduler's tree, and the usage that it was started with, beside those that it lists."""
    settings = read_algorithm(algorithm)
    theirs = build_their_tree(rows)
    assert theirs is not None
    usage = np.zeros(theirs.tree.n_entries)
    for row, i in zip(rows, theirs.entry_of_row.tolist(), strict=True):
        usage[i] = USED.get((row.group, row.user), 0.0)
    result = compute(theirs.tree, usage, algorithm=settings)
    ours = Ours(theirs.tree, settings, result.factor, result.has_factor, result.usage)
    return compare(rows, ours, theirs.entry_of_row.tolist())
