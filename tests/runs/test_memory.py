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


_FRAGMENTS = """
import threading
import numpy as np
from apps.runs.memory import own_bytes, return_freed_memory, share_one_heap
{call}
small = []
def work():
    for _ in range(20):
        arrays = [np.ones(400_000) for _ in range(8)]  # 26 MB of a request
        small.append([bytearray(500) for _ in range(50)])  # of which something stays
        del arrays[::2]
        small.append([bytearray(500) for _ in range(50)])
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return_freed_memory()
print(own_bytes() // 2**20)
"""


def left_mb(call: str) -> int:
    """Own memory after eight threads have made and freed arrays of 3.2 MB, and kept 8 MB of small ones."""
    code = _FRAGMENTS.format(call=call)
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_arrays_of_all_threads_are_returned_beside_small_ones_that_stay() -> None:
    assert left_mb("") > 2 * left_mb("assert share_one_heap()")


_RETURNS = """
import gc
from apps.runs.memory import GROWN_BYTES, MemoryReturn, own_bytes
memory = MemoryReturn()
print(memory.again())
for _ in range(2):  # the second time, the process has grown by nothing since it returned as much
    blocks = [b"x" * 50_000 for _ in range(3 * GROWN_BYTES // 50_000)]
    last = b"x" * 50_001  # behind them: the end of the heap stays in use
    blocks.clear()
    was = own_bytes()
    print(memory.again(), was - own_bytes() > 2 * GROWN_BYTES)
kept = [b"x" * 50_000 for _ in range(3 * GROWN_BYTES // 50_000)]
print(memory.again(), memory.again())
memory = MemoryReturn()
gc.disable()
loop = [b"x" * 3 * GROWN_BYTES]
loop.append(loop)
was = own_bytes()
del loop
print(memory.again(), was - own_bytes() > 2 * GROWN_BYTES)
"""


def test_freed_memory_is_returned_at_each_call_and_searched_for_once_the_process_has_grown() -> None:
    done = subprocess.run([sys.executable, "-c", _RETURNS], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    freed, grown, unreachable = ["False", "True"], ["True", "False"], ["True", "True"]
    assert done.stdout.split() == ["False", *freed, *freed, *grown, *unreachable]
