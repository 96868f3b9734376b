"""Which tests execute which lines of a room's code, by a run of all of them; remembered while neither changes."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from apps.core.code_paths import REPOSITORY

Lines = dict[str, list[int]]  # by path in the repository


@dataclass(slots=True)
class Hits:
    """lines: by test. seconds: of the processor, by test. failed: tests that fail without any change. worlds: the lines
    that making a world executes, which are in no test's."""

    lines: dict[str, Lines] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    worlds: dict[str, Lines] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # by file of tests; "" for the room's code

    @classmethod
    def read(cls, path: Path, code: Iterable[str], tests: Iterable[str]) -> Hits:
        """What is still true of a former run: nothing after a change of the code, else without changed files."""
        digests = {"": digest(code)} | {file: digest([file]) for file in tests}
        former = cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()
        if former.digests.get("") != digests[""]:
            return cls(digests=digests)
        same = {file for file, value in digests.items() if former.digests.get(file) == value}
        names = [name for name in former.lines if name.partition("::")[0] in same]
        return cls(
            {name: former.lines[name] for name in names},
            {name: former.seconds[name] for name in names},
            [name for name in former.failed if name.partition("::")[0] in same],
            former.worlds,
            digests,
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({name: getattr(self, name) for name in Hits.__slots__}), encoding="utf-8")


def of_repository(path: str) -> Path:
    return REPOSITORY / path


def digest(paths: Iterable[str]) -> str:
    """Of files' contents."""
    made = hashlib.sha256()
    for path in sorted(paths):
        made.update(path.encode() + of_repository(path).read_bytes())
    return made.hexdigest()[:16]


class Trace:
    """Lines of these files that this process executes, in any of its threads.

    A function is watched until each of its lines was executed once since `take`: loops are hardly slower then.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._path_of = {str(REPOSITORY / path): path for path in paths}
        self._left: dict[int, tuple[CodeType, set[int]]] = {}  # by id of the code: lines that weren't executed yet

    @contextmanager
    def on(self) -> Iterator[None]:
        before = sys.gettrace()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)  # type: ignore[arg-type]

    def take(self) -> Lines:
        """Those since the last time."""
        taken: dict[str, set[int]] = defaultdict(set)
        for code, left in self._left.values():
            taken[self._path_of[code.co_filename]] |= _lines(code) - left
        self._left.clear()
        return {path: sorted(lines) for path, lines in taken.items()}

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._path_of:
            return None
        if id(code) not in self._left:
            self._left[id(code)] = code, _lines(code)
        left = self._left[id(code)][1]
        if not left:
            return None
        left.discard(frame.f_lineno)

        def within(frame: FrameType, event: str, argument: Any) -> Any:
            left.discard(frame.f_lineno)
            return within if left else None

        return within


def _lines(code: CodeType) -> set[int]:
    return {line for _begin, _end, line in code.co_lines() if line is not None}


def executes(lines: Mapping[str, Iterable[int]], path: str, any_of: Iterable[int]) -> bool:
    return not set(any_of).isdisjoint(lines.get(path, ()))
