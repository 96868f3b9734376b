"""Mutants that may survive, each with its reason: `accepted.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("accepted.toml")


@cache
def accepted() -> dict[str, str]:
    """By the mutant's name, why no test can notice it or need notice it."""
    entries = tomllib.loads(_FILE.read_text(encoding="utf-8")).get("mutant", [])
    return {entry["name"]: entry["reason"] for entry in entries}
