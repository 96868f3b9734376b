"""The agent out of its built file, loaded once in a process; each run of it is a forked child."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from apps.cli.stack.forking import status_of
from tests.forked import enter, open_streams, serve


def load(archive: str) -> None:
    """All its modules, from the file alone: what it lacks isn't found beside it."""
    sys.path.insert(0, archive)
    agent = importlib.import_module("agent")
    assert str(agent.__file__).startswith(archive), agent.__file__
    for module in pkgutil.walk_packages(agent.__path__, "agent."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def run(request: dict[str, Any], files: Sequence[int]) -> None:
    """As `python fairshare-agent.pyz …` does."""
    status = 1
    try:
        enter(request, files)
        open_streams()
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        arguments = request["arguments"]
        sys.argv = [sys.argv[1], *arguments]
        main = importlib.import_module("agent.command_line").main
        status = status_of(lambda: sys.exit(main(arguments)))
    finally:
        os._exit(status)


if __name__ == "__main__":
    load(sys.argv[1])
    serve(run)
