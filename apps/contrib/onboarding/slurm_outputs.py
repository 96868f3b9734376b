"""Outputs of Slurm's commands about this site: run them on this host, and read those of sshare and of the log."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from django.conf import settings

from agent import site_commands
from agent.adapters.slurm import check_config, parse_config, parse_shares
from agent.former_lines import SETUP, remember
from agent.records import Unreadable
from apps.contrib.schedulers.own_values import OwnValue, read_values
from apps.core.errors import FieldProblem, Invalid, TooLarge, Unavailable
from apps.priorities.slurm_config import read_slurm_config
from apps.usage.parsers.sacct_header import COMMAND
from apps.usage.sources.programs import allowed_program, run_program

PROGRAMS = site_commands.names()
MOST_SLURM_OUTPUT_BYTES = 64 * 2**20
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
    config = _run(*site_commands.CONFIG)
    cluster = re.search(r"^ClusterName\s*=\s*([A-Za-z0-9_.-]+)\s*$", config, re.MULTILINE)
    read_slurm_config(config)
    if cluster is None:
        raise Unavailable("scontrol show config prints no ClusterName.", code="command_failed")
    others = [_run(*argv) for argv in site_commands.PRINTED if argv is not site_commands.CONFIG]
    return "".join([_dump(cluster[1]), config, *others])


def printed_at(config: str) -> datetime | None:
    """When `scontrol show config` was printed, if its times are seconds (SLURM_TIME_FORMAT=%s); local ones lack a
    zone.
    """
    match = _PRINTED.search(config)
    return None if match is None else datetime.fromtimestamp(int(match[1]), UTC)


def former_lines_of(config: str, at: datetime) -> dict[str, dict[str, Any]]:
    """Lines of `scontrol show config` that switching on demands to change: going back needs them as they are."""
    findings = check_config("sitefactor", {"SLURM_VERSION": "", **parse_config(config)})
    return remember({}, findings, at.isoformat(), SETUP)


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
        try:
            _run(*site_commands.dump_argv(cluster, str(file)))
        except Unavailable as error:
            hint = site_commands.refusal_hint(error.message)
            raise Unavailable(f"{error.message} {hint}".strip(), code=error.code) from error
        try:
            content = file.read_bytes()
        except OSError as error:
            raise Unavailable(f"sacctmgr dump wrote no file: {error.strerror}.", code="command_failed") from error
    if len(content) > MOST_SLURM_OUTPUT_BYTES:
        raise TooLarge(f"sacctmgr dump writes over {MOST_SLURM_OUTPUT_BYTES // 2**20} MB.")
    return content.decode("utf-8", "replace")


def _run(*arguments: str) -> str:
    with run_program(arguments, time_zone="UTC", timeout_s=_TIMEOUT_S, most_bytes=MOST_SLURM_OUTPUT_BYTES) as stream:
        return stream.read().decode("utf-8", "replace")


def read_sshare(text: str, cluster: str) -> list[OwnValue]:
    """Parse output of site_commands.SSHARE with the agent's parser.

    Raises:
        Invalid: it is something else (`no_sshare`).
    """
    try:
        return read_values(parse_shares(text, cluster))
    except Unreadable as error:
        message = f"{error} Send the output of {site_commands.text_of(site_commands.SSHARE)}."
        raise Invalid(message, code="no_sshare", fields=[FieldProblem("sshare", message)]) from error
