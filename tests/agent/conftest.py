"""A host with a scheduler of fake commands, and a site of Fairshare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.build import build
from tests.agent.fakes import Place


@pytest.fixture(scope="session")
def archive() -> bytes:
    return build()


@pytest.fixture
def place(tmp_path: Path, archive: bytes) -> Iterator[Place]:
    """Four jobs of three accounts; the policy knows all three."""
    found = Place(tmp_path, archive)
    found.scheduler.jobs = {
        "11": {"user": "ann", "group": "physics"},
        "12": {"user": "bob", "group": "physics"},
        "13": {"user": "cat", "group": "bio", "held": True},
        "14": {"user": "ann", "group": "physics", "partition": "long", "tasks": "0-3%2"},
    }
    found.site.factors = {("ann", "physics"): 0.25, ("bob", "physics"): 0.5, ("cat", "bio"): 1.0}
    yield found
    found.site.close()
