"""Usage that a real Slurm and its accounting have otherwise: each reason is right, and what has none is unexplained."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real_schedulers.beside_sshare import PROGRAMS, run
from tests.real_schedulers.enclosure import HOME
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
JOBS = {"hal": "idle", "bob": "hep", "eve": "bio", "fay": "lab"}


@pytest.mark.deep
def test_an_association_made_again_and_a_job_without_accounting(slurm: SlurmSite, settings: Any) -> None:
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(slurm.bin / name) for name in PROGRAMS]
    slurm.load(TREE)
    jobs = {user: slurm.submit(user, account, seconds=4, cpus=8) for user, account in JOBS.items()}
    slurm.wait_for_jobs()
    slurm.sacctmgr("delete", "user", "where", "name=hal")
    slurm.add_user("hal", "idle")
    # As of a job that was requeued with its node at its start: charged, and accounting has no run of it.
    asked = f"--execute=DELETE FROM slurm_acct.{CLUSTER}_job_table WHERE id_job={jobs['eve']}"  # noqa: S608 - constants only
    slurm.run("mariadb", "--no-defaults", f"--socket={HOME}/mariadb.socket", asked)
    usage = json.loads(run("scheduler", "setup", CLUSTER, "--here", "--json"))["usage"]
    by_user = {one["user"]: one for one in usage["differences"]}
    print({user: (one["ours"], one["theirs"], one["reason"]) for user, one in by_user.items()})
    assert by_user.keys() == {"hal", "eve"}, "the others are equal"
    hal, eve = by_user["hal"], by_user["eve"]
    assert (hal["reason"], hal["theirs"], hal["predicted"]) == ("from_zero", 0, 0)
    assert (eve["reason"], eve["predicted"], eve["ours"]) == ("unexplained", None, 0)
    assert eve["difference"] == -eve["theirs"] < 0
