"""A reader of foreign text as the fuzzers see it: its oracle, its seeds, and how much time and memory it may take."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus"
GOLDEN = FOLDER.parent / "golden"
MOST_S = 1.0  # of a processor, for each begun 64 KiB
MOST_GROWN_KB = 96 * 1024  # of the process, by one input of at most 64 KiB
_PIECE = 64 * 1024

Check = Callable[[bytes], bool]
Seeds = Callable[[], list[bytes]]


class OutOfBounds(AssertionError):
    """An input took more time or memory than its size allows."""


@dataclass(frozen=True)
class Target:
    """most_bytes: of an input; longer seeds are cut at a line."""

    name: str
    check: Check
    own_seeds: Seeds
    golden: tuple[str, ...] = ()
    most_bytes: int = 4 * 1024

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name

    def seeds(self) -> list[bytes]:
        files = [path for pattern in self.golden for path in sorted(GOLDEN.glob(pattern))]
        return [_cut(data, self.most_bytes) for data in (*self.own_seeds(), *(path.read_bytes() for path in files))]

    def kept(self) -> Iterator[Path]:
        """Inputs that an earlier run found, and those that once broke a reader."""
        return iter(sorted(self.corpus.iterdir())) if self.corpus.is_dir() else iter(())

    def run(self, data: bytes, *, patience: float = 1.0) -> bool:
        """Check one input, its time and its memory. patience: how many times slower the process is than usual."""
        with suppress(OSError):  # elsewhere than on Linux, growth below an earlier peak isn't seen
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        before_kb, before_s = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        is_taken = self.check(data)
        took_s = time.process_time() - before_s
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        n_pieces = 1 + len(data) // _PIECE
        if took_s > MOST_S * patience * n_pieces:
            raise OutOfBounds(f"{len(data)} bytes took {took_s:.1f} s")
        if grown_kb > MOST_GROWN_KB * n_pieces:
            raise OutOfBounds(f"{len(data)} bytes took {grown_kb // 1024} MiB")
        return is_taken


def _cut(data: bytes, most: int) -> bytes:
    return data if len(data) <= most else data[: data.rfind(b"\n", 0, most) + 1] or data[:most]
