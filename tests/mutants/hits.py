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
from types import FrameType
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


def digest(paths: Iterable[str]) -> str:
    """Of files' contents."""
    made = hashlib.sha256()
    for path in sorted(paths):
        made.update(path.encode() + (REPOSITORY / path).read_bytes())
    return made.hexdigest()[:16]


class Trace:
    """Lines of these files that this process executes, in any of its threads."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._path_of = {str(REPOSITORY / path): path for path in paths}
        self._lines: dict[str, set[int]] = defaultdict(set)

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
        taken = {path: sorted(lines) for path, lines in self._lines.items()}
        self._lines.clear()
        return taken

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = self._path_of.get(frame.f_code.co_filename)
        if path is None:
            return None
        lines = self._lines[path]
        lines.add(frame.f_lineno)

        def within(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self._lines[path].add(frame.f_lineno)
            return within

        return within


def executes(lines: Mapping[str, Iterable[int]], path: str, any_of: Iterable[int]) -> bool:
    return not set(any_of).isdisjoint(lines.get(path, ()))
