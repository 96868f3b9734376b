"""Real schedulers for tests: a Slurm that the tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedulers.slurm_site import SlurmSite, running_slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """Slurm with slurmdbd and slurmrestd and no account but root; for one file of tests."""
    with running_slurm(tmp_path_factory.mktemp("slurm")) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    return made
