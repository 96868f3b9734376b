"""Collect what Slurm's commands print about a site in one text, from which a policy is proposed."""

import os
import re
import tempfile

from agent import site_commands
from agent.commands import MOST_BYTES, Commands
from agent.records import Unreadable

_CLUSTER = re.compile(r"^ClusterName\s*=\s*([A-Za-z0-9_.-]+)\s*$", re.MULTILINE)


def read_site(commands: Commands) -> str:
    """Outputs of all of Slurm's commands that a set-up reads. Nothing is changed.

    Raises:
        Unreadable if a command fails; if this user may not run it, with who may.
    """
    config = commands.read(site_commands.CONFIG)
    cluster = _CLUSTER.search(config)
    if cluster is None:
        raise Unreadable("scontrol show config prints no ClusterName.")
    others = [commands.read(argv) for argv in site_commands.PRINTED if argv is not site_commands.CONFIG]
    return "".join([_dump(commands, cluster.group(1)), config, *others])


def _dump(commands: Commands, cluster: str) -> str:
    """Output of sacctmgr dump, which opens its file by name and reports no error if it can't."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.cfg")
        try:
            commands.read(site_commands.dump_argv(cluster, path))
        except Unreadable as error:
            raise Unreadable(f"{error} {site_commands.refusal_hint(str(error))}".strip())
        try:
            with open(path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"sacctmgr dump wrote no file: {error.strerror}.")
    if len(content) > MOST_BYTES:
        raise Unreadable(f"sacctmgr dump wrote more than {MOST_BYTES} bytes.")
    return content.decode("utf-8", "replace")
