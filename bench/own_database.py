"""A database server of a bench's own: never the data of a running instance, and as durable as an instance's."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import own_copy


@contextmanager
def own_database(var: Path | None = None) -> Iterator[None]:
    """Start a migrated database in a temporary folder, or in `var`; stop it and remove the folder afterwards."""
    var = var or Path(tempfile.mkdtemp(prefix="fairshare-bench-"))
    choose(var)
    from apps.cli.stack.postgres import PostgresServer

    server = PostgresServer(var)
    try:
        server.start()
        from django.core.management import call_command

        set_up()
        call_command("migrate", interactive=False, verbosity=0)
        own_copy.keep_empty()
        yield
    finally:
        server.stop()
        shutil.rmtree(var, ignore_errors=True)


def choose(var: Path) -> None:
    """Make this process, and those that it starts, use the data in `var`; before Django is set up."""
    os.environ["FAIRSHARE_VAR"] = str(var)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    os.environ.pop("DATABASE_URL", None)


def set_up() -> None:
    import django
    from django.conf import settings

    django.setup()
    settings.FAIRSHARE_TOKEN_PATIENCE_S = 60.0  # a database that waits for the processor isn't down
    logging.disable(logging.WARNING)  # progress of imports is no figure
