"""Prints of a real Slurm into files: `python -m tests.real_schedulers.capture tests/golden/slurm/site` wrote these."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.real_schedulers.slurm_site import TREE, SlurmSite, running_slurm

_ACCOUNTING = (
    "JobIDRaw,Cluster,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocCPUS,AllocTRES,ReqTRES,"
    "Reservation,UID,TimelimitRaw,JobID,Suspended"
)
_QUEUE = "JobID,UserName,Account,Partition,QOS,State,Reason,PriorityLong,Nice"
_EMPTY = {"squeue-empty.json": "squeue --json", "sacct-empty.json": "sacct -a --json -S now-1hours"}
_FULL = {
    "squeue.json": "squeue --json",
    "squeue-O.txt": f"squeue -O {_QUEUE}",
    "sacct.json": "sacct -a --json -S now-1hours",
    "sacct-X-P-duplicates.txt": f"sacct -a -X -P --duplicates -S now-1hours --format={_ACCOUNTING}",
    "sprio-l.txt": "sprio -l",
    "sshare-l-P.txt": "sshare -a -l -P",
    "scontrol-show-config.txt": "scontrol show config",
    "scontrol-show-partition.txt": "scontrol show partition",
    "scontrol-show-job.txt": "scontrol show job",
}
_WITHOUT_SLURMCTLD = {
    "slurmctld-squeue.json": "squeue --json",
    "slurmctld-squeue.txt": "squeue",
    "slurmctld-sshare.txt": "sshare -a -l",
    "slurmctld-sprio.txt": "sprio -l",
    "slurmctld-scontrol-show-config.txt": "scontrol show config",
    "slurmctld-scontrol-update.txt": "scontrol update jobid=1 sitefactor=3",
}
_WITHOUT_SLURMDBD = {
    "slurmdbd-sacct.txt": "sacct -a -X -P",
    "slurmdbd-sacct-json.txt": "sacct -a --json",
    "slurmdbd-sacctmgr-dump.txt": "sacctmgr dump c1 file=/srv/no.cfg",
}
_WITHOUT_DATABASE = {"mariadb-sacct.txt": "sacct -a -X -P", "mariadb-sacct-json.txt": "sacct -a --json"}


def _keep(site: SlurmSite, folder: Path, commands: dict[str, str]) -> None:
    """What goes to standard output, or, where the command fails, all that it prints and its exit status."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, command in commands.items():
        done = site.attempt(*command.split())
        failed = f"{done.stdout}{done.stderr}exit status {done.returncode}\n"
        (folder / name).write_text(failed if done.returncode else done.stdout)


def _run_jobs(site: SlurmSite) -> None:
    """Jobs that ended in every way, that run, are suspended, and wait for every reason."""
    for user, account, cpus in (("ann", "hep", 8), ("ann", "atlas2", 4), ("dan", "bio", 12), ("fay", "lab", 3)):
        site.submit(user, account, cpus=cpus, seconds=3)
    site.run("sbatch", "--uid=bob", "--account=hep", "--chdir=/tmp", "--output=/dev/null", "--wrap=exit 3")
    again = site.submit("gus", "lab", cpus=2, seconds=4)
    time.sleep(2)
    site.run("scontrol", "requeue", again)  # starts again two minutes later: it waits with the reason BeginTime
    cancelled = site.submit("hal", "idle", "--hold")
    site.run("scancel", cancelled)
    running = site.submit("ann", "hep", "--time=10", cpus=40, seconds=600)
    suspended = site.submit("cat", "atlas2", "--time=10", cpus=16, seconds=600)
    time.sleep(3)
    site.run("scontrol", "suspend", suspended)
    first = site.submit("bob", "hep", "--time=30", cpus=64, seconds=60)
    site.submit("dan", "bio", "--time=30", "--nice=100", cpus=60, seconds=60)
    site.submit("eve", "bio", "--hold", seconds=60)
    site.submit("fay", "lab", "--array=0-3%2", "--partition=other", cpus=64, seconds=60)
    site.submit("gus", "lab", f"--dependency=afterok:{running}", seconds=60)
    site.submit("hal", "idle", "--begin=now+1hour", "--job-name=pend|pipe", seconds=60)
    site.run("scontrol", "update", f"jobid={first}", "sitefactor=7000")
    time.sleep(6)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place, running_slurm(Path(place)) as site:
        site.load(TREE)
        _keep(site, folder, _EMPTY)
        _run_jobs(site)
        _keep(site, folder, _FULL)
        (folder / "sacctmgr-dump.cfg").write_text("Cluster -" + site.dump().split("\nCluster -", 1)[1])
        jobs = site.rest("/slurm/v0.0.38/jobs")
        (folder / "slurmrestd-jobs.json").write_text(json.dumps(jobs, indent=1) + "\n")
        down = folder / "down"
        site.stop("slurmctld")
        _keep(site, down, _WITHOUT_SLURMCTLD)
        (down / "slurmctld-slurmrestd-jobs.json").write_text(json.dumps(site.rest("/slurm/v0.0.38/jobs"), indent=1))
        site.start("slurmctld")
        site.stop("slurmdbd")
        _keep(site, down, _WITHOUT_SLURMDBD)
        site.start("slurmdbd")
        site.stop("mariadbd")
        _keep(site, down, _WITHOUT_DATABASE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
