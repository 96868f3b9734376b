#!/usr/bin/env python3
"""Entry of every command an operator types."""

from __future__ import annotations

import os
import sys

# Read files and print numbers: need no instance, no secrets, no directory to write in. By the app that has them.
ENGINE_ALONE = {"compute": "apps.cli", "jobs": "apps.contrib.jobs", "simulate": "apps.contrib.lab"}
# Only start other processes: loading all applications would make each start a second longer. `serve web` loads them:
# it first asks the database whether it may run beside the others.
STARTERS = ("up", "with_stack", "serve")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django isn't installed here: run `make setup` and use .venv/bin/python manage.py.")
    from apps.cli.closed_pipes import end_with_reader

    with end_with_reader():
        _configure()
        execute_from_command_line(sys.argv)


def _configure() -> None:
    """Settings before anything else, so that a wrong one is a line that names it."""
    import django
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import get_commands

    from apps.core.private_dirs import InsecureDirectory

    if sys.argv[1:2] and sys.argv[1] in ENGINE_ALONE:
        settings.configure(INSTALLED_APPS=["apps.cli"], LOGGING_CONFIG=None)
        django.setup()
        get_commands().update(ENGINE_ALONE)  # the models of a plug-in would need the other apps
        return
    try:
        _ = settings.INSTALLED_APPS
        command, *arguments = [*sys.argv[1:], ""]
        if command in STARTERS and not (command == "serve" and "web" in arguments):
            settings.INSTALLED_APPS = ["apps.cli"]
    except (ImproperlyConfigured, InsecureDirectory) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The instance's directory can't be used ({error}): set FAIRSHARE_VAR to one you may write in.")


if __name__ == "__main__":
    main()
