"""A kind of run that does what a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.runs import kinds
from apps.runs.leases import Lease
from apps.runs.models import Run

Work = Callable[[Run, Lease], dict[str, Any]]


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[[Work], None]:
    """`handle(function)` makes it the handler of runs of kind "test"."""
    handlers: dict[str, Work] = {"test": lambda run, lease: {"done": run.pk}}
    monkeypatch.setattr(kinds, "_handlers", handlers)

    def give(work: Work) -> None:
        handlers["test"] = work

    return give
