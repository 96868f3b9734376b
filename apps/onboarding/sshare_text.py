"""`sshare -a -P -l` as rows, by the parser of the agent."""

from __future__ import annotations

from agent.adapters.slurm import parse_shares
from agent.records import Unreadable
from apps.core.errors import FieldProblem, Invalid
from apps.schedulers.own_values import OwnValue, read_values


def read_sshare(text: str, cluster: str = "") -> list[OwnValue]:
    """
    Raises:
        Invalid: it is something else (`no_sshare`).
    """
    try:
        return read_values(parse_shares(text, cluster))
    except Unreadable as error:
        message = f"{error} Send the output of sshare -a -P -l."
        raise Invalid(message, code="no_sshare", fields=[FieldProblem("sshare", message)]) from error
