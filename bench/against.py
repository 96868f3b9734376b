"""The hot roads of this working tree beside those of another commit: ratios with their spread.

Both sides run this bench on their own code, with one interpreter and a database each. Processes of the two sides take
turns as A B B A, so that a machine that gets slower or faster in between slows both alike; a block of four gives one
ratio. What is measured hardly depends on what else the machine does: seconds of the processor, of the process and of
the database; statements, rows and bytes; and instructions, where valgrind is installed.

A measure is worse if the whole spread of its ratios lies above 1 by more than what is no difference (LEAST).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from apps.core.code_paths import REPOSITORY

BLOCKS = 6  # the fewest of which the smallest and largest ratio are a spread of 95 %
CONFIDENCE = 0.95
# By measure: the part by which sides of one commit may differ. Addresses and paths move code in caches; identifiers
# that are drawn have more or fewer digits.
LEAST = {"own_s": 0.03, "database_s": 0.05, "statements": 0.0, "rows": 0.0, "bytes": 0.01, "instructions": 0.005}
FEWEST = {"own_s": 0.0, "database_s": 2e-4}  # seconds; less isn't compared: the kernel counts coarser
_UNITS = {"own_s": "s", "database_s": "s"}
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class CannotCompare(Exception):
    """The other commit can't be measured; the message says why."""


@dataclass(frozen=True)
class Compared:
    """ratio: of this tree's measure over the other commit's, between low and high; before, after: their medians."""

    road: str
    measure: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    n_blocks: int

    @property
    def is_worse(self) -> bool:
        """Seconds are judged by BLOCKS at least: few of them may differ by chance; counts always."""
        is_judged = self.measure not in _UNITS or self.n_blocks >= BLOCKS
        return is_judged and self.low > 1 + LEAST[self.measure]

    @property
    def is_better(self) -> bool:
        return self.high < 1 - LEAST[self.measure]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The smallest interval between two of the values in which their median lies with CONFIDENCE, by the sign test.

    Of n values the k-th smallest and the k-th largest miss it in 2 · P(Bin(n, ½) < k). The extremes for fewer than six.
    """
    ranked, n = sorted(values), len(values)
    k = 1
    while 2 * sum(math.comb(n, each) for each in range(k + 1)) / 2**n <= 1 - CONFIDENCE:
        k += 1
    return ranked[k - 1], ranked[n - k]


def block_ratio(first_a: float, first_b: float, second_b: float, second_a: float) -> float:
    """The ratio of B to A in one block, which no steady change of the machine within it shifts; inf from 0 to more."""
    before, after = first_a + second_a, first_b + second_b
    if before:
        return after / before
    return math.inf if after else 1.0


def compared(road: str, measure: str, blocks: Sequence[tuple[float, float, float, float]]) -> Compared:
    """From blocks of four measurements in the order A B B A. Of a single block: the spread of its pairs."""
    before = statistics.median([value for a, _, _, d in blocks for value in (a, d)])
    after = statistics.median([value for _, b, c, _ in blocks for value in (b, c)])
    ratios = [block_ratio(*block) for block in blocks]
    if len(blocks) == 1:
        a, b, c, d = blocks[0]
        low, high = (
            block_ratio(most, least, least, most) for most, least in ((max(a, d), min(b, c)), (min(a, d), max(b, c)))
        )
    else:
        low, high = spread(ratios)
    return Compared(road, measure, before, after, statistics.median(ratios), low, high, len(blocks))


class Side:
    """One of the two trees, with a database that a process of its own holds. var: the folder of its data."""

    def __init__(self, root: Path, var: Path) -> None:
        self._root, self._var = root, var
        self._log = var.with_suffix(".log")

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Make the side's data; what is returned waits until it is there."""
        with self._started(["hold"]) as holder:

            def wait() -> None:
                self._await(holder, "ready")

            yield wait

    def measure(self, roads: Sequence[str]) -> dict[str, dict[str, float]]:
        with self._started(["measure", *roads]) as process:
            measured: dict[str, dict[str, float]] = json.loads(self._await(process, "{"))
        return measured

    def count_instructions(self, roads: Sequence[str]) -> dict[str, float]:
        """Instructions of going each road once, without those of the database."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "callgrind"
            counter = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
            fixed = ["setarch", "-R"] if shutil.which("setarch") else []
            with self._started(["count", *roads], under=[*fixed, *counter]) as process:
                for road in roads:
                    self._await(process, road)
                    _control(process.pid, "--instr=on")
                    print(file=process.stdin, flush=True)
                    self._await(process, "gone")
                    _control(process.pid, "--instr=off")
                    _control(process.pid, "--dump")
                    print(file=process.stdin, flush=True)
            return {
                road: float(_TOTALS.findall(Path(f"{out}.{number}").read_text())[0])
                for number, road in enumerate(roads, 1)
            }

    @contextmanager
    def _started(self, arguments: Sequence[str], under: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
        """A process of bench.hot_roads, which ends with its input."""
        environment = os.environ | {
            "FAIRSHARE_VAR": str(self._var),
            "PYTHONPATH": str(self._root),
            "PYTHONHASHSEED": "0",  # else sets and dictionaries have another order in each process
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [*under, sys.executable, "-m", "bench.hot_roads", *arguments]
        with (
            self._log.open("a") as log,
            subprocess.Popen(
                command,
                cwd=self._root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.communicate()

    def _await(self, process: subprocess.Popen[str], begin: str) -> str:
        """The next line that begins so."""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(begin):
                return line
        raise CannotCompare(self._log.read_text()[-2000:])


def _control(pid: int, what: str) -> None:
    subprocess.run(["callgrind_control", what, str(pid)], capture_output=True, check=True)


def compare(commit: str, roads: Sequence[str], *, n_blocks: int = BLOCKS, counts_instructions: bool = True) -> int:
    """Measure and print; the exit status is 1 where a road is worse by more than the spread."""
    try:
        measures = list(_measure_both(commit, roads, n_blocks, counts_instructions))
    except CannotCompare as reason:
        print(f"{commit} can't be compared: {reason}", file=sys.stderr)
        return 2
    print(table(measures))
    worse = [each for each in measures if each.is_worse]
    if n_blocks < BLOCKS:
        print(f"NOT JUDGED: seconds, of fewer than {BLOCKS} blocks.")
    if counts_instructions and not any(each.measure == "instructions" for each in measures):
        print("NOT MEASURED: instructions. They need valgrind: apt-get install valgrind")
    print(f"{len(worse)} of {len(measures)} measures are worse than at {commit} by more than their spread.")
    return int(bool(worse))


def table(measures: Sequence[Compared]) -> str:
    rows = [f"{'road':<12} {'measure':<13} {'before':>12} {'after':>12} {'ratio':>7}  spread"]
    for each in measures:
        verdict = "WORSE" if each.is_worse else "better" if each.is_better else ""
        values = [_shown(value, each.measure) for value in (each.before, each.after)]
        rows.append(
            f"{each.road:<12} {each.measure:<13} {values[0]:>12} {values[1]:>12} {each.ratio:>7.3f}  "
            f"{each.low:.3f} – {each.high:.3f}  {verdict}".rstrip()
        )
    return "\n".join(rows)


def _shown(value: float, measure: str) -> str:
    return f"{value * 1e3:.3f} ms" if measure in _UNITS else f"{value:,.0f}"


def _measure_both(commit: str, roads: Sequence[str], n_blocks: int, counts_instructions: bool) -> Iterator[Compared]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairshare-against-")))
        other = stack.enter_context(_worktree(commit, folder / "other"))
        sides = [Side(other, folder / "a"), Side(REPOSITORY, folder / "b")]
        for wait in [stack.enter_context(side.held()) for side in sides]:
            wait()
        a, b = sides
        blocks = []
        for number in range(n_blocks):
            print(f"block {number + 1} of {n_blocks} …", file=sys.stderr, flush=True)
            blocks.append([side.measure(roads) for side in (a, b, b, a)])
        counted = []
        if counts_instructions and shutil.which("valgrind") and shutil.which("callgrind_control"):
            print("instructions …", file=sys.stderr, flush=True)
            counted = [side.count_instructions(roads) for side in (a, b, b, a)]
        for road in roads:
            for measure in blocks[0][0][road]:
                values = [tuple(each[road][measure] for each in block) for block in blocks]
                if max(max(block) for block in values) > FEWEST.get(measure, 0):
                    yield compared(road, measure, values)  # type: ignore[arg-type]
            if counted:
                yield compared(road, "instructions", [tuple(each[road] for each in counted)])  # type: ignore[list-item]


@contextmanager
def _worktree(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit, with this bench in place of its own."""
    git = ["git", "-C", str(REPOSITORY)]
    added = subprocess.run([*git, "worktree", "add", "--detach", str(folder), commit], capture_output=True, text=True)
    if added.returncode:
        raise CannotCompare(added.stderr.strip())
    try:
        shutil.rmtree(folder / "bench", ignore_errors=True)
        shutil.copytree(REPOSITORY / "bench", folder / "bench", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(folder)], capture_output=True, check=False)
