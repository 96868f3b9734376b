"""Slurm's commands that a set-up reads, for docs/schedulers.md."""

from __future__ import annotations

from agent import site_commands


def snapshot() -> str:
    """Lines for a shell that write them all into one file, and who may run them."""
    return f"```sh\n{site_commands.script()}```\n\n{site_commands.WHO}"
