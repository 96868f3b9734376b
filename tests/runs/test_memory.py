"""A worker's memory: arrays that are made again and again cost no new pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_FAULTS = """
import resource
import numpy as np
from apps.runs.memory import keep_freed_memory
{call}
def work():
    return sum(len(array) for array in [np.ones(300_000) for _ in range(12)])
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    """Page faults of twelve arrays of 2.4 MB at a time, the second time that they are made."""
    code = _FAULTS.format(call=call)
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_is_reused_for_the_next_arrays() -> None:
    assert faults("") > 1_000
    assert faults("assert keep_freed_memory()") < 100
