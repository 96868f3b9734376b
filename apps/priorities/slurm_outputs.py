"""Outputs of Slurm's commands about a site in one text, in any order, from a file or pasted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apps.policies.formats.escaped_lines import logical_lines
from apps.priorities.slurm_qos import DUMPED as DUMPED_QOS
from apps.priorities.slurm_qos import is_qos_header

_DUMP = re.compile(r"\s*(?:Cluster|Machine|Parent|Account|Project|User)\s*- ?\S", re.IGNORECASE)
_SSHARE = re.compile(r"(?=.*\bRawShares\b)(?=.*\bFairShare\b)[^|]*Account[^|]*\|.*")
_CONFIG = re.compile(r"Configuration data as of|\s*[A-Za-z]\w*\s*=|include\s", re.IGNORECASE)


@dataclass(frozen=True)
class SiteOutputs:
    """Outputs found in a text; empty if missing. config: includes `scontrol show partition`.

    qos: the table of QOS, or their lines in a dump, which stay in it.
    """

    dump: str = ""
    config: str = ""
    sshare: str = ""
    qos: str = ""


def split_outputs(text: str) -> SiteOutputs:
    """Split a text by the form of its lines: lines of a dump start with their kind, the table of sshare with its
    header. Comments next to lines of a dump belong to it.
    """
    dump: list[str] = []
    config: list[str] = []
    sshare: list[str] = []
    qos: list[str] = []
    table: list[str] = []  # of sshare and qos, the one whose rows follow
    comments: list[str] = []
    last: list[str] = []
    columns = 0
    for _number, line in logical_lines("\n".join(text.splitlines())):
        if line.startswith("#"):
            comments.append(line)
            continue
        if _SSHARE.fullmatch(line):
            table = sshare = [line]
            columns = line.count("|")
        elif "|" in line and is_qos_header(line):
            table = qos = [line]
            columns = line.count("|")
        elif columns and line.count("|") == columns:
            table.append(line)
        elif DUMPED_QOS.match(line) or _DUMP.match(line):
            dump += [*comments, line]
            qos += [line] if DUMPED_QOS.match(line) else []
            last = dump
        elif _CONFIG.match(line):
            last += comments if last is dump else []
            config.append(line)
            last = config
        comments = comments if not line.strip() else []
    dump += comments if last is dump else []
    return SiteOutputs(*("".join(f"{line}\n" for line in lines) for lines in (dump, config, sshare, qos)))
