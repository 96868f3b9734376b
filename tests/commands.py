"""Runs command lines of manage.py in forked children of one process that has loaded the applications.

Loading them is most of the time of a command. A child reads the settings anew from its own environment, and runs
`command_line.main` with the arguments of a terminal. What a process decides while it loads can't be decided again: a
child whose environment or settings differ in what was read then becomes a process of its own (`exec`). So do commands
that load other applications than all.
"""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, overload

from apps.cli.command_line import ENGINE_ALONE, STARTERS
from apps.cli.stack.forking import status_of
from apps.core.code_paths import REPOSITORY
from fairshare_web.settings_file import VARIABLE, known_names
from tests.forked import ForkServer, enter, open_streams, serve

_PRODUCTION, _UNBUFFERED = "FAIRSHARE_PRODUCTION", "PYTHONUNBUFFERED"
# Of the environment: read by the settings, or whenever they are asked for. All else may be read while modules load.
_READ_LATER = ("FAULT", "FAULT_FILE", "PATH", "HOME", "PWD", "OLDPWD", "TZ", "DJANGO_SETTINGS_MODULE", _UNBUFFERED)
_OF_THE_SUITE = (
    *("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"),
    *("PYTEST_XDIST_TESTRUNUID", "CI", "FAIRSHARE_REQUIRE_ALL"),
)
# Settings that were read while the applications loaded, and are read again here.
_READ_AGAIN = frozenset({"DATABASES", "LOGGING", "LOGGING_CONFIG", "BASE_DIR"})
_ALONE = {*ENGINE_ALONE, *STARTERS, "version", "--version"}


_servers: dict[str, ForkServer] = {}  # by FAIRSHARE_PRODUCTION, by which applications are loaded in one way or another
_starting = threading.Lock()


def _running(env: Mapping[str, str]) -> ForkServer:
    production = env.get(_PRODUCTION, "")
    with _starting:
        if production not in _servers:
            loading = {**os.environ, _PRODUCTION: production}
            _servers[production] = ForkServer("-m", "tests.commands", env=loading)
            atexit.register(_servers[production].close)
        return _servers[production]


@overload
def run_manage(
    *arguments: str, env: Mapping[str, str], text: None = None, stdin: bytes = b"", cwd: Path = REPOSITORY,
    timeout_s: float = 240.0, is_terminal: bool = False,
) -> subprocess.CompletedProcess[bytes]: ...  # fmt: skip
@overload
def run_manage(
    *arguments: str, env: Mapping[str, str], text: Literal[True], stdin: bytes = b"", cwd: Path = REPOSITORY,
    timeout_s: float = 240.0, is_terminal: bool = False,
) -> subprocess.CompletedProcess[str]: ...  # fmt: skip
def run_manage(
    *arguments: str,
    env: Mapping[str, str],
    text: bool | None = None,
    stdin: bytes = b"",
    cwd: Path = REPOSITORY,
    timeout_s: float = 240.0,
    is_terminal: bool = False,
) -> Any:
    """`manage.py` with these arguments and this environment in the folder `cwd`, as `subprocess.run` with its output.

    stdin: standard input. is_terminal: what is printed is in one text, in the order in which a terminal has its lines.
    Raises TimeoutExpired, after the command was killed.
    """
    if is_terminal:
        env = {**env, _UNBUFFERED: "1"}
    command = [sys.executable, str(REPOSITORY / "manage.py"), *arguments]
    with TemporaryFile() as typed, TemporaryFile() as out, TemporaryFile() as errors:
        typed.write(stdin)
        typed.seek(0)
        if arguments and arguments[0] in _ALONE:
            status = subprocess.run(
                command, stdin=typed, stdout=out, stderr=out if is_terminal else errors, env=dict(env), cwd=cwd,
                timeout=timeout_s, check=False,
            ).returncode  # fmt: skip
        else:
            files = [typed.fileno(), out.fileno(), (out if is_terminal else errors).fileno()]
            status = _running(env).run(command, arguments, env=env, cwd=cwd, files=files, timeout_s=timeout_s)
        shown = []
        for file in (out, errors):
            file.seek(0)
            shown.append(file.read().decode() if text else file.read())
    return subprocess.CompletedProcess(command, status, *shown)


# In the process that has loaded the applications


class _Loaded:
    """The applications, pages and commands; and what of environment and settings was read while they loaded."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
        import django
        import django.test.signals
        from django.conf import settings
        from django.core.management import get_commands, load_command_class
        from django.urls import get_resolver

        django.setup()
        _ = get_resolver().url_patterns  # loads all pages, as the checks before each command do
        for name, app in get_commands().items():
            load_command_class(app, name)
        gc.collect()
        gc.freeze()  # pages of memory stay shared with the children
        self._read = set(vars(settings)) - {"_wrapped"}
        self._settings = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
        self._other = {VARIABLE, *known_names(), *_READ_LATER, *_OF_THE_SUITE}

    def run(self, request: dict[str, Any], files: Sequence[int]) -> None:
        """The command, in this process or in one that takes its place. Ends it."""
        enter(request, files)
        environment, arguments = request["environment"], request["arguments"]
        if not self._holds_for(environment):
            os.execve(sys.executable, [sys.executable, str(REPOSITORY / "manage.py"), *arguments], environment)
        from apps.cli import command_line

        status = 1
        try:
            open_streams(is_unbuffered=bool(environment.get(_UNBUFFERED)))
            sys.argv = ["manage.py", *arguments]
            sys.path[0] = str(REPOSITORY)
            status = status_of(command_line.main)
        finally:
            os._exit(status)

    def _holds_for(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this environment had loaded the same; its settings are read then."""
        from django.conf import settings
        from django.utils.functional import empty

        def decisive(of: Mapping[str, str]) -> dict[str, str]:
            return {name: value for name, value in of.items() if name not in self._other}

        if decisive(environment) != decisive(self._environment):
            return False
        os.environ.clear()
        os.environ.update(environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
        del sys.modules["fairshare_web.settings"]
        settings._wrapped = empty
        try:
            for name in self._settings.keys() - set(dir(settings)):  # defaults that an application has added
                setattr(settings, name, self._settings[name])
            values = {name: getattr(settings, name) for name in self._read - _READ_AGAIN}
        except (Exception, SystemExit):  # said by a process of its own
            return False
        if any(value != self._settings[name] for name, value in values.items()):
            return False
        self._forget_what_changed()
        return True

    def _forget_what_changed(self) -> None:
        """What Django keeps of settings, by the signal of its own tests; connections, for which it has none."""
        from django.conf import settings
        from django.core.signals import setting_changed
        from django.db import connections

        for name in dir(settings):
            if name.isupper() and name not in _READ_AGAIN and self._settings.get(name) != getattr(settings, name):
                setting_changed.send(type(settings), setting=name, value=getattr(settings, name), enter=True)
        for alias in self._settings["DATABASES"]:
            with suppress(AttributeError):
                del connections[alias]
        connections._settings = None  # type: ignore[attr-defined]
        vars(connections).pop("settings", None)


if __name__ == "__main__":
    serve(_Loaded().run)
