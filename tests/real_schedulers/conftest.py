"""Real schedulers for tests, shared by the tests of one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_schedulers.gridengine_site import GridEngineSite, running_gridengine
from tests.real_schedulers.slurm_site import SlurmSite, running_slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """Slurm with slurmdbd and slurmrestd and no account but root; for one file of tests."""
    with running_slurm(tmp_path_factory.mktemp("slurm")) as site:
        yield site


@pytest.fixture(scope="module")
def gridengine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngineSite]:
    """Grid Engine with one queue of eight slots; for one file of tests."""
    with running_gridengine(tmp_path_factory.mktemp("gridengine")) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    return made
