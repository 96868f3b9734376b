"""Outputs of Slurm's commands about this site: run them on this host, and read those of sshare and of the log."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from django.conf import settings

from agent.adapters.slurm import SSHARE, parse_shares
from agent.records import Unreadable
from apps.contrib.schedulers.own_values import OwnValue, read_values
from apps.core.errors import FieldProblem, Invalid, TooLarge, Unavailable
from apps.priorities.slurm_config import read_slurm_config
from apps.priorities.slurm_qos import COMMAND as QOS_COMMAND
from apps.usage.parsers.sacct_header import COMMAND
from apps.usage.sources.programs import allowed_program, run_program

PROGRAMS = ("scontrol", "sacctmgr", "sshare")
MOST_BYTES = 64 * 2**20
LOG_DAYS = 90
_TIMEOUT_S = 30.0
_LOG_TIMEOUT_S = 300.0
_PRINTED = re.compile(r"^Configuration data as of (\d{9,11})\s*$", re.MULTILINE)


def can_read_here() -> bool:
    """Whether the settings allow all needed commands."""
    return _allows(*PROGRAMS)


def can_read_log_here() -> bool:
    return _allows("sacct")


def _allows(*names: str) -> bool:
    allowed = {Path(path).name for path in settings.FAIRSHARE_COLLECT_COMMANDS}
    return allowed.issuperset(names)


def read_site_outputs() -> str:
    """Run all of Slurm's commands on this host; returns their outputs as one text.

    Raises:
        Invalid: the settings don't allow a command (`command_not_allowed`), or it is missing.
        Unavailable: a command fails or takes too long.
    """
    for name in PROGRAMS:
        allowed_program(name)
    config = _run("scontrol", "show", "config")
    cluster = re.search(r"^ClusterName\s*=\s*([A-Za-z0-9_.-]+)\s*$", config, re.MULTILINE)
    read_slurm_config(config)
    if cluster is None:
        raise Unavailable("scontrol show config prints no ClusterName.", code="command_failed")
    sshare = _run(*SSHARE)  # right after the configuration, which has the time
    partitions = _run("scontrol", "show", "partition")
    qos = _run(*QOS_COMMAND.split())
    return "".join([_dump(cluster[1]), config, sshare, partitions, qos])


def printed_at(config: str) -> datetime | None:
    """When `scontrol show config` was printed, if its times are seconds (SLURM_TIME_FORMAT=%s); local ones lack a
    zone.
    """
    match = _PRINTED.search(config)
    return None if match is None else datetime.fromtimestamp(int(match[1]), UTC)


def read_site_log() -> BinaryIO:
    """Run sacct for the last days; times are seconds since 1970."""
    command = COMMAND.partition(" ")[2]  # the variable in front of the command is set anyway
    arguments = command.replace("-X", f"-X -S now-{LOG_DAYS:d}days").split()
    most = int(settings.FAIRSHARE_UPLOAD_BYTES)
    return run_program(arguments, time_zone="UTC", timeout_s=_LOG_TIMEOUT_S, most_bytes=most)


def _dump(cluster: str) -> str:
    """Run `sacctmgr dump`. It opens its file by name and reports no error if it can't, so a pipe may not be
    readable.
    """
    with TemporaryDirectory(dir=settings.FILE_UPLOAD_TEMP_DIR) as folder:
        file = Path(folder, "dump.cfg")
        _run("sacctmgr", "dump", cluster, f"file={file}")
        try:
            content = file.read_bytes()
        except OSError as error:
            raise Unavailable(f"sacctmgr dump wrote no file: {error.strerror}.", code="command_failed") from error
    if len(content) > MOST_BYTES:
        raise TooLarge(f"sacctmgr dump writes over {MOST_BYTES // 2**20} MB.")
    return content.decode("utf-8", "replace")


def _run(*arguments: str) -> str:
    with run_program(arguments, time_zone="UTC", timeout_s=_TIMEOUT_S, most_bytes=MOST_BYTES) as stream:
        return stream.read().decode("utf-8", "replace")


def read_sshare(text: str, cluster: str) -> list[OwnValue]:
    """Parse output of `sshare -a -P -l -m` with the agent's parser.

    Raises:
        Invalid: it is something else (`no_sshare`).
    """
    try:
        return read_values(parse_shares(text, cluster))
    except Unreadable as error:
        message = f"{error} Send the output of sshare -a -P -l -m."
        raise Invalid(message, code="no_sshare", fields=[FieldProblem("sshare", message)]) from error
