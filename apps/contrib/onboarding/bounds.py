"""Bounds of the texts that a new site pastes or sends, in characters."""

from __future__ import annotations

OUTPUTS = 16_000_000  # of all commands
PASTED = 4 * 2**20
SLURM_CONFIG = 1_000_000
