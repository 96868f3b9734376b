"""One first start for the whole run: other tests begin with a copy of what it made."""

from __future__ import annotations

import signal
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.faults.stack import Stack, eventually
from tests.shared_setup import set_up_once


@dataclass(frozen=True)
class FirstStart:
    """An instance that began with nothing, was left a run without a worker, and was stopped with Ctrl-C."""

    directory: str
    output_text: str
    status: int
    run_id: int

    @property
    def var(self) -> Path:
        return Path(self.directory)


@pytest.fixture(scope="session")
def first_start() -> FirstStart:
    return FirstStart(**set_up_once("first-start", lambda place: asdict(_start_and_stop(place))))


def _start_and_stop(place: Path) -> FirstStart:
    stack = Stack(place=place)
    try:
        stack.start(within_s=300.0)  # static files are compressed once, on cores that others use as well
        run_id = stack.leave_work()
        status = stack.signal(signal.SIGINT)
        eventually(lambda: stack.pids() == [], f"nothing is left after Ctrl-C: {stack.processes()}", within_s=40)
    except BaseException:
        stack.remove()
        raise
    return FirstStart(str(stack.var), stack.output_text(), status, run_id)
