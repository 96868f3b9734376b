from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import AuditEvent, User
from apps.cli.closed_pipes import PIPE_CLOSED
from apps.core.code_paths import REPOSITORY, command_name
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, TooLarge, Unavailable
from apps.core.operator_commands import OperatorCommand
from tests.cli.refusals import code_of
from tests.cli.test_backup import Machine, other
from tests.commands import run_manage
from tests.examples import first

__all__ = ["other"]  # fixture


def refusing(error: DomainError) -> OperatorCommand:
    class Refusing(OperatorCommand):
        requires_system_checks = ()

        def handle(self, *args: Any, **options: Any) -> None:
            raise error

    return Refusing()


def test_the_location_of_an_error_is_printed_once() -> None:
    where, found = "operations[1].entry", "is maintained elsewhere"
    for between in (": ", " "):
        error = Invalid(f"{where}{between}{found}.", fields=[FieldProblem(where, found)])
        with pytest.raises(CommandError) as caught:
            call_command(refusing(error))
        assert str(caught.value).count(where) == 1


def test_each_of_several_locations_is_printed_once() -> None:
    problems = [FieldProblem("rules[0].source", "is unknown"), FieldProblem("rules[1].source", "is empty")]
    error = Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    with pytest.raises(CommandError) as caught:
        call_command(refusing(error))
    assert [str(caught.value).count(each.where) for each in problems] == [1, 1]
    assert "is empty" in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        "help",
        pytest.param("diffsettings", marks=pytest.mark.deep),
        pytest.param("priorities --help", marks=pytest.mark.deep),
    ],
)
def test_a_closed_pipe_ends_any_command_without_a_traceback(command: str) -> None:
    """As in `manage.py … | head`; the reader has gone before the first line."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        [sys.executable, "manage.py", *command.split()],
        cwd=REPOSITORY, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    os.close(write_end)
    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr
    assert ended.returncode in ([0, PIPE_CLOSED] if "--help" in command else [PIPE_CLOSED])  # argparse drops the error


@pytest.mark.parametrize(
    ("error", "status"), [(Conflict("Somebody was first."), 1), (Invalid("No number."), 2), (TooLarge("Over."), 2)]
)
def test_an_error_is_one_line_and_an_exit_status(error: DomainError, status: int) -> None:
    with pytest.raises(CommandError, match=error.message) as caught:
        call_command(refusing(error))
    assert caught.value.returncode == status


@pytest.mark.parametrize(
    ("message", "place", "line"),
    [
        (
            "A token is valid for 1 to 365 days.",
            "A token is valid for 1 to 365 days.",
            "x: A token is valid for 1 to 365 days.",
        ),
        ("Nothing was stored.", "is missing", "Nothing was stored. (x: is missing)"),
    ],
)
def test_one_error_location_is_one_line(message: str, place: str, line: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command(refusing(Invalid(message, fields=[FieldProblem("x", place)])))
    assert str(caught.value) == line


def test_error_locations_are_listed_up_to_a_limit() -> None:
    places = [FieldProblem(f"line {n}", "no number") for n in range(25)]
    with pytest.raises(CommandError) as caught:
        call_command(refusing(Invalid("Nothing was stored.", fields=places)))
    lines = str(caught.value).splitlines()
    assert lines[1] == "  line 0: no number"
    assert re.findall(r"\d+", lines[-1]) == ["5"]
    assert len(lines) == 22


def test_an_unavailable_database_is_reported_with_the_remedy(
    environment_without: Callable[..., dict[str, str]],
) -> None:
    with tempfile.TemporaryDirectory(prefix="fs-") as empty:
        environment = {**environment_without("DATABASE_URL"), "FAIRSHARE_VAR": empty}
        done = run_manage("create_user", "alice", env=environment, text=True)
    assert done.returncode == 1
    assert "with_stack" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("is_ours", "named"), [(True, "make run"), (False, "DATABASE_URL")])
def test_priorities_not_in_memory_are_refused_with_the_remedy(settings: Any, is_ours: bool, named: str) -> None:
    settings.FAIRSHARE_EMBEDDED_DATABASE = is_ours
    with pytest.raises(CommandError, match=named):
        call_command(refusing(Unavailable("The database is away.", code="no_database")))


@pytest.mark.django_db
def test_an_administrator_is_created_with_a_password_shown_once() -> None:
    out = io.StringIO()
    call_command("create_user", "alice", "--admin", "--email", "alice@example.org", stdout=out)
    first, second = out.getvalue().splitlines()
    assert first.split()[-1] == "alice"
    user = User.objects.get(username="alice")
    assert user.is_superuser
    assert user.email == "alice@example.org"
    assert user.check_password(second.split(" ", 1)[1])
    assert AuditEvent.objects.filter(verb="user.made", subject="alice").count() == 1


@pytest.mark.django_db
def test_a_given_password_is_read_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery staple\n"))
    out = io.StringIO()
    call_command("create_user", "bob", "--password-stdin", stdout=out)
    (line,) = out.getvalue().splitlines()
    assert line.split()[-1] == "bob"
    assert "correct horse" not in line
    assert User.objects.get(username="bob").check_password("correct horse battery staple")


@pytest.mark.django_db
@pytest.mark.parametrize(("typed", "status"), [("", 2), ("1234\n", 2)])
def test_no_password_and_a_weak_one_are_bad_input(monkeypatch: pytest.MonkeyPatch, typed: str, status: int) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    with pytest.raises(CommandError) as caught:
        call_command("create_user", "carol", "--password-stdin")
    assert caught.value.returncode == status
    assert not User.objects.filter(username="carol").exists()


@pytest.mark.django_db
def test_the_same_name_twice_is_refused() -> None:
    call_command("create_user", "dave", stdout=io.StringIO())
    with pytest.raises(CommandError, match="dave") as caught:
        call_command("create_user", "dave")
    assert (caught.value.returncode, code_of(caught.value)) == (1, "user_exists")


def test_the_entry_point_is_executable_by_hand() -> None:
    assert Path(REPOSITORY / "manage.py").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    first(
        3,
        [
            ("FAIRSHARE_TICK_S", "often", ["FAIRSHARE_TICK_S='often'"]),
            ("FAIRSHARE_TICK_S", "0", ["FAIRSHARE_TICK_S='0'", "1"]),
            ("DATABASE_URL", "mars://s3cret@db", ["DATABASE_URL", "postgres://"]),
            ("DATABASE_URL", "sqlite:///s3cret.db", ["DATABASE_URL", "PostgreSQL", "postgres://"]),
            ("FAIRSHARE_PORT", "99999", ["FAIRSHARE_PORT='99999'", "65535"]),
            ("FAIRSHARE_VAR", "pyproject.toml/var", ["pyproject.toml/var"]),
        ],
    ),
)
def test_an_invalid_setting_is_one_line_with_its_name(
    environment_without: Callable[..., dict[str, str]], variable: str, value: str, named: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "priorities", "grid"],
        cwd=REPOSITORY,
        env={**environment_without(), variable: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert [each for each in named if each not in done.stderr] == []
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize("command", [("priorities", "grid"), ("clearsessions",)])
def test_a_command_without_a_database_says_how_to_start_it(command: tuple[str, ...], tmp_path: Path) -> None:
    """One catches errors itself, the other is Django's own."""
    environment = environment_of(FAIRSHARE_VAR=str(tmp_path / "empty"), DATABASE_URL="", FAIRSHARE_TESTING="1")
    refused = run_manage(*command, env=environment, text=True)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "make run" in line


def environment_of(**environment: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "SECRET_"))}
    return {**kept, **environment}


@pytest.mark.django_db(transaction=True)
def test_a_command_during_preparation_says_so_in_a_sentence(other: Machine) -> None:
    """The tables aren't there yet; one command catches domain errors itself, the other is Django's own."""
    for arguments in (("create_user", "robin"), ("clearsessions",)):
        refused = other.run(*arguments)
        assert refused.returncode == 1, arguments
        message = refused.stderr.decode()
        assert "The site is being prepared, or was never prepared: its database lacks" in message
        assert "`manage.py up` or `manage.py serve prepare`" in message
        assert "Traceback" not in message


def test_an_examination_makes_no_instance(tmp_path: Path) -> None:
    """The settings, which would make keys, see in the arguments that it is one."""
    run = subprocess.run(
        [sys.executable, "manage.py", "doctor"], cwd=REPOSITORY, text=True, capture_output=True, check=False,
        env=environment_of(FAIRSHARE_VAR=str(tmp_path / "none"), DATABASE_URL=""),
    )  # fmt: skip
    assert run.returncode == 1
    assert f"There is no instance in {tmp_path / 'none'}: set FAIRSHARE_VAR to its folder" in run.stdout
    assert list(tmp_path.iterdir()) == []


def test_texts_name_the_command_that_is_installed() -> None:
    assert command_name("doctor") == "manage.py doctor"
    printed = re.compile(r"""["'`“(> ]manage\.py [a-z_]+""")
    places = [
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for folder, pattern in (("apps", "*.py"), ("templates", "*.html"))
        for path in sorted((REPOSITORY / folder).rglob(pattern))
        for line in path.read_text(encoding="utf-8").splitlines()
        if printed.search(line) and not line.lstrip().startswith(("#", '"""')) and '"""' not in line
    ]
    docstrings = [place for place in places if "`manage.py" in place and '"' not in place.partition(": ")[2]]
    former = [place for place in places if "manage.py export_policy" in place]  # of builds that were never a package
    assert [place for place in places if place not in (*docstrings, *former)] == []
