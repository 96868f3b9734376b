"""The list of a set-up's commands on a real Slurm: each release takes every spelling, and who may dump is as we say."""

from __future__ import annotations

import pytest

from agent import site_commands
from apps.policies.formats.registry import get_format, read_file
from apps.priorities.slurm_config import read_slurm_config
from apps.priorities.slurm_outputs import split_outputs
from apps.priorities.slurm_qos import read_usage_factors
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite

pytestmark = pytest.mark.schedulers


@pytest.mark.deep
def test_every_command_of_the_list_prints_what_a_set_up_reads(slurm: SlurmSite) -> None:
    slurm.load(TREE)
    slurm.sacctmgr("add", "qos", "half", "set", "UsageFactor=0.5")
    text = slurm.dump() + "".join(slurm.run(*argv) for argv in site_commands.PRINTED)
    outputs = split_outputs(text)
    assert read_usage_factors(outputs.qos) == {"normal": 1.0, "half": 0.5}
    assert read_slurm_config(outputs.qos + outputs.config).settings["algorithm"] == {"name": "slurm-fair-tree"}
    assert outputs.sshare.count("\n") == len(slurm.shares()) + 1
    assert read_file(get_format("sacctmgr"), outputs.dump.encode()).policy == CLUSTER


@pytest.mark.deep
@pytest.mark.parametrize(("level", "may"), [("", False), ("None", False), ("Operator", False), ("Administrator", True)])
def test_only_administrators_of_accounting_may_dump(slurm: SlurmSite, level: str, may: bool) -> None:
    user = "hal" if level else "slurmrest"  # one whom accounting knows, and one whom it lacks
    if level:
        slurm.load(TREE)
        slurm.sacctmgr("modify", "user", user, "set", f"adminlevel={level}")
    done = slurm.attempt(*site_commands.dump_argv(CLUSTER, f"/tmp/of_{user}.cfg"), user=user)
    refusal = site_commands.refusal_hint(done.stdout + done.stderr)
    assert (not refusal, done.returncode == 0) == (may, may), done
