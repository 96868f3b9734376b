"""Which tests execute which lines of a tree, and how long each takes: from one run of the suite, kept in a folder.

Left out are tests of other processes and of browsers: what they need is a minute for a mutant, and what they run in
those processes is not measured.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutants.trees import Copy

_NOT_MAPPED = ("browser", "faults", "pages", "ring", "terminal")
_PLUGIN = Path(__file__).parent / "plugin"
_MOST_S, _MOST_S_OF_A_TEST = 7200.0, 900


@dataclass(frozen=True)
class CoverageMap:
    """`tests`: seconds and world by id; `lines`: by file, line (or -1: while modules load) the ids, "+" before those
    that executed it in a fixture."""

    tests: dict[str, tuple[float, str]]
    lines: dict[str, dict[int, list[str]]]

    def tests_of(self, path: str, first_line: int, last_line: int) -> set[str]:
        """Tests that execute one of the lines; those of the whole file where it is executed only while it loads.

        What a fixture executed may count for all that share the fixture: tests of the same file or world.
        """
        by_line = self.lines.get(path, {})
        named = [name for line in range(first_line, last_line + 1) for name in by_line.get(line, [])]
        if not named and any(line in by_line for line in range(first_line, last_line + 1)):
            named = [name for names in by_line.values() for name in names]
        found = {name.lstrip("+") for name in named} & self.tests.keys()
        makers = {name[1:] for name in named if name.startswith("+")}
        files = {_file(test) for test in makers}
        worlds = {self.tests[test][1] for test in makers if test in self.tests} - {""}
        shared = (test for test, (_, world) in self.tests.items() if world in worlds or _file(test) in files)
        return found | set(shared)

    def quickest(self, tests: Iterable[str], seconds: float) -> list[str]:
        """As many as take so long, from every file the quickest first; then by file, those of a quick set-up first."""
        of_files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda each: (self.tests[each][0], each)):
            of_files[_file(test)].append(test)
        turns = sorted(
            (turn, self.tests[test][0], test) for names in of_files.values() for turn, test in enumerate(names)
        )
        chosen: dict[str, list[str]] = defaultdict(list)
        for _, took, test in turns:
            if seconds < took and chosen:
                break
            seconds -= took
            chosen[_file(test)].append(test)
        by_time = sorted(chosen, key=lambda file: (sum(self.tests[test][0] for test in chosen[file]), file))
        return [test for file in by_time for test in chosen[file]]


def load_map(tree: Path, copy: Copy, kept_in: Path, workers: int, only: list[str]) -> CoverageMap:
    """From the folder where this very tree was mapped before, else made now."""
    file = kept_in / f"mutants-map-{_digest(tree, only)}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_measured(copy, workers, only)), encoding="utf-8")
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    names = list(read["tests"])
    lines = {
        path: {int(line): [f"{'+' if n < 0 else ''}{names[abs(n) - 1]}" for n in numbers] for line, numbers in by_line}
        for path, by_line in read["lines"].items()
    }
    return CoverageMap({name: (float(took), str(world)) for name, (took, world) in read["tests"].items()}, lines)


def _measured(copy: Copy, workers: int, only: list[str]) -> dict[str, Any]:
    """Tests are numbered from 1 in their order; a negative number means the test's fixtures."""
    settings = copy.root.parent / "coverage.ini"
    settings.write_text("[run]\nsource = apps\nconcurrency = thread\n", encoding="utf-8")
    data_file, tests_file = copy.root.parent / "coverage.data", copy.root.parent / "tests.json"
    folders = [f"--ignore=tests/{name}" for name in _NOT_MAPPED if (copy.root / "tests" / name).exists()]
    ran = copy.run(
        only or ["tests"],
        "-n",
        str(workers),
        "-p",
        "record_tests",
        *folders,
        f"--timeout={_MOST_S_OF_A_TEST}",
        "--timeout-method=signal",
        "--cov",
        f"--cov-config={settings}",
        "--cov-context=test",
        "--cov-report=",
        timeout_s=_MOST_S,
        TESTS_OUT=str(tests_file),
        PYTHONPATH=str(_PLUGIN),
        COVERAGE_FILE=str(data_file),
        COVERAGE_CORE="ctrace",
    )
    if "node down" in ran.output or not tests_file.exists():  # what a worker measured is lost with it
        raise SystemExit(f"The tests could not be mapped:\n{ran.output[-3000:]}")
    tests = json.loads(tests_file.read_text(encoding="utf-8"))
    number = {test: place for place, test in enumerate(tests, start=1)}
    data = CoverageData(str(data_file))
    data.read()
    lines = {}
    for name in data.measured_files():
        by_line = data.contexts_by_lineno(name).items()
        lines[str(Path(name).relative_to(copy.root))] = [(line, _numbers(found, number)) for line, found in by_line]
    return {"tests": tests, "lines": lines}


def _numbers(contexts: Iterable[str], number: dict[str, int]) -> list[int]:
    found = set()
    for context in contexts:
        test, _, phase = context.rpartition("|")
        if test in number:
            found.add(number[test] if phase == "run" else -number[test])
    return sorted(found)


def _digest(tree: Path, only: list[str]) -> str:
    digest = hashlib.sha256("\n".join(only).encode())
    for path in sorted([*(tree / "apps").rglob("*.py"), *(tree / "tests").rglob("*.py")]):
        if "mutants" not in path.parts:
            digest.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _file(test: str) -> str:
    return test.partition("::")[0]
