"""What Slurm's commands print about its site, in one text: what the first steps of Fairshare begin with."""

import re

from agent.commands import Commands
from agent.records import Unreadable

_CLUSTER = re.compile(r"^ClusterName\s*=\s*([A-Za-z0-9_.-]+)\s*$", re.MULTILINE)


def read_site(commands: Commands) -> str:
    """Outputs of sacctmgr dump, scontrol show config and partition, and sshare. Nothing is changed.

    Raises: Unreadable where a command fails.
    """
    config = commands.read(["scontrol", "show", "config"])
    cluster = _CLUSTER.search(config)
    if cluster is None:
        raise Unreadable("scontrol show config prints no ClusterName.")
    return "".join([
        commands.read(["sacctmgr", "dump", cluster.group(1), "file=/dev/stdout"]),
        config,
        commands.read(["scontrol", "show", "partition"]),
        commands.read(["sshare", "--all", "--parsable2", "--long"]),
    ])  # fmt: skip
