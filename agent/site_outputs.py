"""Collect what Slurm's commands print about a site in one text, from which a policy is proposed."""

import os
import re
import tempfile

from agent.adapters.slurm import SSHARE
from agent.commands import MOST_BYTES, Commands
from agent.records import Unreadable

_CLUSTER = re.compile(r"^ClusterName\s*=\s*([A-Za-z0-9_.-]+)\s*$", re.MULTILINE)


def read_site(commands: Commands) -> str:
    """Outputs of sacctmgr dump, scontrol show config and partition, and sshare. Nothing is changed.

    Raises:
        Unreadable if a command fails.
    """
    config = commands.read(["scontrol", "show", "config"])
    cluster = _CLUSTER.search(config)
    if cluster is None:
        raise Unreadable("scontrol show config prints no ClusterName.")
    return "".join([
        _dump(commands, cluster.group(1)),
        config,
        commands.read(["scontrol", "show", "partition"]),
        commands.read(SSHARE),
    ])  # fmt: skip


def _dump(commands: Commands, cluster: str) -> str:
    """Output of sacctmgr dump, which opens its file by name and reports no error if it can't."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.cfg")
        commands.read(["sacctmgr", "dump", cluster, "file=" + path])
        try:
            with open(path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"sacctmgr dump wrote no file: {error.strerror}.")
    if len(content) > MOST_BYTES:
        raise Unreadable(f"sacctmgr dump wrote more than {MOST_BYTES} bytes.")
    return content.decode("utf-8", "replace")
