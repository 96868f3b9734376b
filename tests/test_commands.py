"""A command in a forked child does what a process of its own does: answers, statuses, settings, files and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from tests.commands import run_manage

Environment = Callable[..., dict[str, str]]
_LEFT_OUT = "FAIRSHARE_PLUGINS_LEFT_OUT"
_WHERE = "import __main__; print(__main__.__spec__ and __main__.__spec__.name)"
_SETTINGS = """
from django.conf import settings
from django.db import connections
connections.settings  # completes them
print({name: getattr(settings, name) for name in dir(settings) if name.isupper() and "AXES" not in name})"""


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """That of a command on an instance without a database."""

    def of(**more: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name == _LEFT_OUT or not name.startswith(("FAIRSHARE_", "SECRET_"))
        }
        own = {"FAIRSHARE_VAR": str(tmp_path / "var"), "DATABASE_URL": "", "FAIRSHARE_TESTING": "1"}
        return {**kept, **own, **more}

    return of


def shell(code: str, env: dict[str, str], *, stdin: bytes = b"", cwd: Path = REPOSITORY) -> str:
    done = run_manage("shell", "--no-imports", "-c", code, env=env, stdin=stdin, cwd=cwd, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    "arguments",
    [
        ("create_user", "ann"),
        ("create_user", "--nonsense"),
        ("shell", "--no-imports", "-c", _SETTINGS),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_forked_command_prints_and_ends_as_a_process_of_its_own(
    environment: Environment, arguments: tuple[str, ...]
) -> None:
    env = environment(FAIRSHARE_SITE="north", FAIRSHARE_TIME_ZONE="Europe/Oslo", FAIRSHARE_BACKUP_KEEP="3")
    own = subprocess.run(
        [sys.executable, "manage.py", *arguments], env=env, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    forked = run_manage(*arguments, env=env, text=True)
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)


@pytest.mark.deep
def test_most_commands_are_forked_and_those_that_would_load_something_else_are_not(
    environment: Environment, tmp_path: Path
) -> None:
    usual = environment()
    forked: list[dict[str, str]] = [
        {},
        {"FAIRSHARE_SITE": "north", "FAIRSHARE_POOLER": "1", "FAULT": "a:kill"},
        {"FAIRSHARE_PRODUCTION": "1", "FAIRSHARE_ALLOWED_HOSTS": "north.example"},
    ]
    for more in forked:
        assert shell(_WHERE, {**usual, **more}) == "tests.commands\n", more
    for other in ({_LEFT_OUT: "apps.contrib.search"}, {"PYTHONPATH": str(tmp_path)}):
        assert shell(_WHERE, {**usual, **other}) == "None\n", other
    wrong = run_manage("check", env=environment(FAIRSHARE_PORT="many"), text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "FAIRSHARE_PORT='many' is not a whole number.\n")


def test_settings_are_those_of_the_commands_own_environment(environment: Environment) -> None:
    code = (
        "from django.conf import settings; from django.db import connection; import os, time\n"
        "print(settings.FAIRSHARE_SITE, settings.PRODUCTION, connection.settings_dict['NAME'], time.tzname[0])"
    )
    env = environment(
        FAIRSHARE_SITE="north", DATABASE_URL="postgres://ann@localhost/of_ann", FAIRSHARE_TIME_ZONE="Europe/Oslo"
    )
    assert shell(code, env) == "north False of_ann CET\n"
    assert shell(code, environment(DATABASE_URL="postgres://ann@localhost/other")) == "local False other UTC\n"


def test_input_folder_and_mask_are_those_of_the_caller(environment: Environment, tmp_path: Path) -> None:
    code = """
import os, sys
print(os.getcwd(), sys.stdin.read(), file=open('made', 'w'))
print('done', file=sys.stderr)"""
    before = os.umask(0o027)
    try:
        shell(code, environment(), stdin=b"typed", cwd=tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "made").read_text() == f"{tmp_path} typed\n"
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
    both = run_manage("shell", "--no-imports", "-c", code, env=environment(), cwd=tmp_path, is_terminal=True)
    assert (both.stdout, both.stderr) == (b"done\n", b"")
    code = "import sys\nfor n in range(3):\n    print(n); print(-n, file=sys.stderr)"
    ordered = run_manage("shell", "--no-imports", "-c", code, env=environment(), is_terminal=True)
    assert ordered.stdout == b"0\n0\n1\n-1\n2\n-2\n"


def test_a_command_ends_with_its_own_status(environment: Environment) -> None:
    for code, status, printed in (
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import atexit, sys; atexit.register(print, 'last', file=sys.stderr)", 0, "last\n"),
        ("import os, sys; print('x', file=sys.stderr); os._exit(4)", 4, "x\n"),
    ):
        ended = run_manage("shell", "--no-imports", "-c", code, env=environment(), text=True)
        assert (ended.returncode, ended.stderr) == (status, printed), code
        assert shell("print(1)", environment()) == "1\n", "the next one runs"


def test_a_command_that_takes_too_long_is_killed(environment: Environment, tmp_path: Path) -> None:
    code = "import signal; signal.pause()"
    with pytest.raises(subprocess.TimeoutExpired):
        run_manage("shell", "--no-imports", "-c", code, env=environment(), cwd=tmp_path, timeout_s=0.5)
    assert shell("print(1)", environment()) == "1\n", "the next one runs"


def test_commands_run_beside_each_other(environment: Environment, tmp_path: Path) -> None:
    """Opening a pipe waits for the other end."""
    os.mkfifo(tmp_path / "pipe")
    codes = ("print('sent', file=open('pipe', 'w'))", "print(open('pipe').read())")
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(lambda code: shell(code, environment(), cwd=tmp_path).strip(), codes)] == ["", "sent"]
