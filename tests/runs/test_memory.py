"""Memory of processes: arrays that are made again and again cost no new pages; what was freed is returned."""

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


_RETURNS = """
import gc
from apps.runs.memory import GROWN_BYTES, MemoryReturn, own_bytes
memory = MemoryReturn()
print(memory.after_growth())
blocks = [b"x" * 50_000 for _ in range(3 * GROWN_BYTES // 50_000)]
last = b"x" * 50_001  # behind them: the end of the heap stays in use
blocks.clear()
was = own_bytes()
print(memory.after_growth())
print(was - own_bytes() > 2 * GROWN_BYTES)
print(memory.after_growth())
memory = MemoryReturn()
gc.disable()
loop = [b"x" * 3 * GROWN_BYTES]
loop.append(loop)
was = own_bytes()
del loop
print(memory.after_growth())
print(was - own_bytes() > 2 * GROWN_BYTES)
"""


def test_freed_memory_is_returned_once_the_process_has_grown() -> None:
    done = subprocess.run([sys.executable, "-c", _RETURNS], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "False", "True", "True"]
