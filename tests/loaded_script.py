"""A program of one file, loaded once in a process; each run of it is a forked child with its names made anew."""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType, ModuleType
from typing import Any

from apps.cli.stack.forking import status_of
from tests.forked import ForkServer, enter, open_streams, serve

_LANG = "C.UTF-8"  # decides what the interpreter's streams are encoded in
_LONGEST_SCRIPT_S = 60.0
_servers: dict[bytes, ForkServer] = {}  # by the digest of the program
_starting = threading.Lock()


def run_script(program: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> tuple[int, str, str]:
    """Exit status, output and errors of this program, without input, in the language C.UTF-8."""
    assert env.get("LANG") == _LANG
    assert not [name for name in env if name.startswith("PYTHON")], "the interpreter reads them when it starts"
    with open(os.devnull) as typed, TemporaryFile() as out, TemporaryFile() as errors:
        files = [typed.fileno(), out.fileno(), errors.fileno()]
        shown = [sys.executable, str(program), *arguments]
        status = _loaded(program).run(
            shown, [str(program), *arguments], env=env, cwd=cwd, files=files, timeout_s=_LONGEST_SCRIPT_S
        )
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode())
        return status, texts[0], texts[1]


def _loaded(program: Path) -> ForkServer:
    digest = hashlib.sha256(program.read_bytes()).digest()
    with _starting:
        if digest not in _servers:
            env = {**os.environ, "LANG": _LANG}
            _servers[digest] = ForkServer("-m", "tests.loaded_script", str(program), env=env)
            atexit.register(_servers[digest].close)
        return _servers[digest]


class _Script:
    """Its code, and in this process the modules that it imports."""

    def __init__(self, path: str) -> None:
        self._code: CodeType = compile(Path(path).read_bytes(), path, "exec")
        sys.modules["loaded"] = loaded = ModuleType("loaded")
        exec(self._code, loaded.__dict__)  # noqa: S102  the program that is tested

    def run(self, request: dict[str, Any], files: Sequence[int]) -> None:
        status = 1
        try:
            enter(request, files)
            open_streams()
            os.environ.clear()
            os.environ.update(request["environment"])
            time.tzset()
            sys.argv = request["arguments"]
            sys.modules["__main__"] = main = ModuleType("__main__")
            main.__file__ = sys.argv[0]
            ended: list[SystemExit] = []

            def program() -> None:
                try:
                    exec(self._code, main.__dict__)  # noqa: S102
                except SystemExit as end:
                    ended.append(end)  # with its frames, which hold the streams open until they are flushed
                    raise

            status = status_of(program)
        finally:
            os._exit(status)


if __name__ == "__main__":
    serve(_Script(sys.argv[1]).run)
