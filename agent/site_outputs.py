"""What Slurm's commands print about its site, in one text: what the first steps of Fairshare begin with."""

import os
import re
import tempfile

from agent.commands import MOST_BYTES, Commands
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
        _dump(commands, cluster.group(1)),
        config,
        commands.read(["scontrol", "show", "partition"]),
        commands.read(["sshare", "--all", "--parsable2", "--long"]),
    ])  # fmt: skip


def _dump(commands: Commands, cluster: str) -> str:
    """sacctmgr opens the file by its name, and says nothing where it can't."""
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
