"""Preparation of a site before its processes start: tables, static files, OpenAPI document, first users, sample."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import django
from django.conf import settings
from django.core.management import CommandError, call_command, get_commands
from django.db import NotSupportedError

from apps.cli.backup.before_upgrade import back_up_before_upgrade, end_upgrade
from apps.cli.backup.drafts import remove_abandoned_folders
from apps.cli.stack.migration import check_room
from apps.cli.stack.paths import password_for, write_once
from apps.core import clock
from apps.core.code_paths import REPOSITORY
from apps.core.errors import DomainError
from apps.core.private_dirs import private_dir

_STARTED_EMPTY = "started-empty"
_WIRING = REPOSITORY / "fairshare_web"
_MAKERS = (_WIRING / "static_files.py", _WIRING / "joined_files.py")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="prepare")
    parser.add_argument("--no-sample", action="store_true")
    parser.add_argument("--backup", action="store_true", help="back up before an upgrade")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    django.setup()
    logging.getLogger("apps").setLevel(logging.WARNING)  # fewer lines at the first start
    try:
        # Stop here on misconfiguration or a database of another version.
        call_command("check", stdout=io.StringIO(), databases=["default"])
        check_room()
        remove_abandoned_folders(Path(settings.VAR))
        if chosen.backup:
            back_up_before_upgrade(at=clock.now(), say=lambda line: print(line, flush=True))
        call_command("migrate", interactive=False, verbosity=0)
        end_upgrade()
        _collect_static()
        describe_api()
        _fill(no_sample=chosen.no_sample)
        _compile_for_large_trees()
    except (CommandError, DomainError, NotSupportedError) as error:  # the last: Django's, of a server that is too old
        print(error, file=sys.stderr)
        return 1
    return 0


def _collect_static() -> None:
    """Collect static files if one has changed, because compressing them takes seconds."""
    if settings.WHITENOISE_USE_FINDERS:
        return
    stamp = Path(settings.STATIC_ROOT) / ".collected"
    wanted = _fingerprint_of_static()
    if not stamp.exists() or stamp.read_text(encoding="ascii") != wanted:
        call_command("collectstatic", interactive=False, clear=True, verbosity=0)
        stamp.write_text(wanted, encoding="ascii")


def _fingerprint_of_static(makers: Iterable[Path] = _MAKERS) -> str:
    """Changes with each static file, and with the code that joins, names and compresses them."""
    from django.contrib.staticfiles.finders import get_finders

    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for maker in makers:
        digest.update(maker.read_bytes())
    for finder in get_finders():
        for name, storage in finder.list([]):
            digest.update(f"{name} {storage.size(name)} {storage.get_modified_time(name)}\n".encode())
    return digest.hexdigest()


def describe_api() -> None:
    """Generate the OpenAPI document of a new release, which would take a web process seconds."""
    from apps.web.rest.schema import schema_file

    for suffix, format in (("yaml", "openapi"), ("json", "openapi-json")):
        path = schema_file(suffix)
        if path.exists():
            continue
        for old in private_dir(path.parent).glob(f"*.{suffix}"):
            old.unlink()
        unfinished = path.with_suffix(".new")
        with contextlib.redirect_stderr(io.StringIO()):  # warnings about names, for developers
            call_command("spectacular", file=str(unfinished), format=format)
        unfinished.replace(path)


def _fill(*, no_sample: bool) -> None:
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.accounts.services import make_user
    from apps.policies.models import Policy

    started_empty = Path(settings.VAR) / _STARTED_EMPTY
    if no_sample and not Policy.all_objects.exists():
        write_once(started_empty, "Started without the sample site. Remove this file to load the sample.\n")
    if not User.objects.filter(is_superuser=True).exists():
        make_user(username="admin", email="", password=password_for("admin"), is_admin=True, actor=COMMAND)
    if not started_empty.exists() and not Policy.all_objects.exists() and "load_sample" in get_commands():
        call_command("load_sample")


def _compile_for_large_trees() -> None:
    """Store machine code that takes seconds to compile: the first page that compares algorithms would wait for it."""
    from apps.engine.algorithms import load_machine_code
    from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE
    from apps.policies.models import Entry

    if Entry.objects.filter(until=None)[:FEWEST_FOR_MACHINE_CODE].count() == FEWEST_FOR_MACHINE_CODE:
        load_machine_code()


if __name__ == "__main__":
    sys.exit(main())
