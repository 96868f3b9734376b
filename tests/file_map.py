"""Which files each test reads or runs, recorded by `--record-files` (make test-map) for `python -m tests.changed`.

A function that is called, a template that is drawn and a file that is opened, in the process of the test; lines that
run while a module is imported belong to no test. The map is kept in pytest's cache: one entry a test function, or the
file alone where all its functions read the same.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

KEPT = "fairshare/files"
REPOSITORY = Path(__file__).resolve().parent.parent
_HEAD = f"{REPOSITORY}{os.sep}"
_LEFT_OUT = (".", "var/", "site/", "dist/")  # hidden folders, environments among them, and what is made
PROPERTY = "files"
Map = dict[str, list[str]]  # files, relative to the repository, by test function


class Recorder:
    """What the process has called and opened since `begin`."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._opened: set[str] = set()
        self._is_on = False
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        self._codes.clear()
        self._opened.clear()
        self._is_on = True
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def end(self) -> list[str]:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # as its documentation says
        self._is_on = False
        return within({*(code.co_filename for code in self._codes), *self._opened})

    def draw(self, name: str) -> None:
        self._opened.add(name)

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> None:
        """Called once for each call of a function; lines aren't traced."""
        self._codes.add(frame.f_code)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_on and event == "open" and isinstance(arguments[0], str):
            self._opened.add(arguments[0])


def within(paths: Iterable[str]) -> list[str]:
    """Those of the repository, relative to it."""
    own = {path.removeprefix(_HEAD) for path in paths if path.startswith(_HEAD) and path != __file__}
    own |= {path for path in paths if not path.startswith(("/", "<")) and (REPOSITORY / path).is_file()}
    return sorted(path for path in own if not path.startswith(_LEFT_OUT) and "__pycache__" not in path)


def function_of(nodeid: str) -> str:
    """The test without the values of its parameters."""
    return nodeid.partition("[")[0]


class Recording:
    """In the process of the tests: files of each as a property of its report."""

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._has_templates = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        self._watch_templates()
        self._recorder.begin()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            item.user_properties.append((PROPERTY, self._recorder.end()))

    def _watch_templates(self) -> None:
        """A loaded template is kept: drawing it opens no file."""
        if self._has_templates or "django.template.base" not in sys.modules:
            return
        from django.template.base import Template

        draw, recorder = Template.render, self._recorder

        def recorded(template: Any, context: Any) -> Any:
            recorder.draw(str(template.origin.name))
            return draw(template, context)

        Template.render = recorded  # type: ignore[assignment, method-assign]
        self._has_templates = True


class Collected:
    """In the process that controls the run: the map of all its tests, over that of earlier ones."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache = getattr(config, "cache", None)  # none under -p no:cacheprovider
        self._files: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, list):
                self._files[function_of(report.nodeid)].update(value)
        report.user_properties = [each for each in report.user_properties if each[0] != PROPERTY]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._cache is not None and self._files:
            merged = unpacked(self._cache.get(KEPT, None)) | {
                name: sorted(files) for name, files in self._files.items()
            }
            self._cache.set(KEPT, packed(merged))


def packed(by_test: Map) -> dict[str, Any]:
    """With each name of a file once."""
    names = sorted({name for files in by_test.values() for name in files})
    number = {name: n for n, name in enumerate(names)}
    return {"files": names, "tests": {test: [number[name] for name in files] for test, files in by_test.items()}}


def unpacked(kept: dict[str, Any] | None) -> Map:
    if not kept:
        return {}
    names = kept["files"]
    return {test: [names[n] for n in files] for test, files in kept["tests"].items()}


def read_map(folder: Path = REPOSITORY / ".pytest_cache") -> Map:
    """What was recorded last, empty where nothing was."""
    path = folder / "v" / KEPT
    return unpacked(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-files", action="store_true", help="record the files that each test reads, for make test-changed"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("record_files"):
        return
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recording(), "recording")
    if not is_worker:
        config.pluginmanager.register(Collected(config), "collected_files")
