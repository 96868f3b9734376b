from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.federation.conftest import side

__all__ = ["environment_without", "side"]


@pytest.fixture
def environment_without() -> Callable[..., dict[str, str]]:
    """The environment of a process outside the suite: without what the suite set, and without the named variables."""

    def made(*names: str) -> dict[str, str]:
        dropped = {"FAIRSHARE_TESTING", "FAIRSHARE_VAR", "PYTEST_CURRENT_TEST", *names}
        return {name: value for name, value in os.environ.items() if name not in dropped}

    return made
