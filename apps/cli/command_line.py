"""Entry of every command an operator types: `manage.py` in a clone, `fairshare` where the package is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Need no instance, no secrets, no directory to write in: they print numbers of files, or make instances of their own.
# By the app that has them.
ENGINE_ALONE = {"compute": "apps.cli", "demo": "apps.cli", "jobs": "apps.contrib.jobs", "simulate": "apps.contrib.lab"}
# Only start other processes: loading all applications would make each start a second longer. `serve web` loads them:
# it first asks the database whether it may run beside the others. `up` does, too: its processes are forked from it.
STARTERS = ("with_stack", "serve")
# Say something about the release, or make an instance.
WITHOUT_INSTANCE = {*ENGINE_ALONE, "help", "restore", "version", "up", "-h", "--help", "--version"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    try:
        import django.core.management  # noqa: F401
    except ImportError:
        sys.exit("Django isn't installed here: run `make setup` and use .venv/bin/python manage.py.")
    from apps.cli.closed_pipes import end_with_reader

    with end_with_reader():
        if sys.argv[1:2] in (["version"], ["--version"]):  # Django would print its own
            from apps.core.release import release_name

            print(f"fairshare-web {release_name()}")
            return
        if sys.argv[1:2] == ["doctor"]:  # also names what keeps every other command from starting
            _examine()
            return
        _configure()
        _execute()


def _execute() -> None:
    """Run the command. A database out of reach or without tables is a sentence, whichever command asks it."""
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError, OperationalError

    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from apps.core.operator_commands import being_prepared, no_database

        # Without a state of SQL there was no server that could have said what is wrong.
        is_out_of_reach = isinstance(error, OperationalError) and not getattr(error.__cause__, "sqlstate", None)
        reason = no_database(error) if is_out_of_reach else being_prepared(error)
        if not reason:
            raise
        sys.exit(f"CommandError: {reason}")


def _examine() -> None:
    from django.core.exceptions import ImproperlyConfigured

    from apps.cli.doctor.refused_start import print_refusal
    from apps.cli.stack.paths import require_instance

    try:
        require_instance()
        _configure()
        _execute()
    except ImproperlyConfigured as error:
        print_refusal(str(error))
    except SystemExit as stop:
        if not isinstance(stop.code, str):
            raise
        print_refusal(stop.code)


def _configure() -> None:
    """Settings before anything else, so that a wrong one is a line that names it."""
    import django
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import get_commands

    from apps.cli.stack.paths import NoInstance
    from apps.core.private_dirs import InsecureDirectory

    if sys.argv[1:2] and sys.argv[1] in ENGINE_ALONE:
        settings.configure(INSTALLED_APPS=["apps.cli"], LOGGING_CONFIG=None)
        django.setup()
        get_commands().update(ENGINE_ALONE)  # the models of a plug-in would need the other apps
        return
    _refuse_other_folders()
    try:
        _ = settings.INSTALLED_APPS
        command, *arguments = [*sys.argv[1:], ""]
        if command in STARTERS and not (command == "serve" and "web" in arguments):
            settings.INSTALLED_APPS = ["apps.cli"]
    except (ImproperlyConfigured, InsecureDirectory, NoInstance) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The instance's directory can't be used ({error}): set FAIRSHARE_VAR to one you may write in.")


def _refuse_other_folders() -> None:
    """An installed package has its instance in the current folder: in another one, a command would make a second."""
    from apps.cli.stack.paths import var_dir
    from apps.core.code_paths import IS_INSTALLED

    if not IS_INSTALLED or os.environ.get("FAIRSHARE_VAR") or os.environ.get("DATABASE_URL"):
        return
    if WITHOUT_INSTANCE.isdisjoint(sys.argv[1:2] or ["help"]) and not var_dir().is_dir():
        sys.exit(f"There is no instance in {Path.cwd()}: change to its folder, or set FAIRSHARE_VAR.")
