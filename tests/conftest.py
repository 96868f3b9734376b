"""One embedded PostgreSQL for the whole session; settings are chosen here, before anything imports a model."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings

from apps.cli.stack.paths import private_dir, socket_dir

CHROMIUM_ARGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
REPOSITORY = Path(__file__).resolve().parent.parent
_MOST_DEADLOCKS = 5
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ

# pytest-xdist's workers inherit what the controller decided here.
if not _IS_WORKER:
    if settings.configured:  # too early: the tests would write into the database of a running instance
        raise pytest.UsageError(
            "Unset DJANGO_SETTINGS_MODULE and leave out --ds: the suite chooses its settings itself."
        )
    os.environ["FAIRSHARE_VAR"] = tempfile.mkdtemp(prefix="fairshare-tests-")
    os.environ["FAIRSHARE_TESTING"] = "1"
    os.environ.pop("FAIRSHARE_CLOCK", None)
else:  # files of one worker are no business of another; the database they share
    _shared = Path(os.environ["FAIRSHARE_VAR"])
    _own = _shared / os.environ["PYTEST_XDIST_WORKER"]
    if "DATABASE_URL" not in os.environ:
        private_dir(_own)
        (_own / "socket").symlink_to(socket_dir(_shared))
    os.environ["FAIRSHARE_VAR"] = str(_own)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # playwright's own event loop runs in the test's thread
django.setup()
# Whoever asks looks for newer priorities and for tokens itself: a thread would see nothing of a test's transaction.
settings.FAIRSHARE_SNAPSHOT_POLL_S = 0.0
settings.FAIRSHARE_TOKEN_PATIENCE_S = 0.0

from apps.cli.stack.postgres import PostgresServer  # noqa: E402 - reads FAIRSHARE_VAR
from tests.outbound_servers import certified, connects, serve  # noqa: E402, F401 - fixtures

_server = pytest.StashKey[PostgresServer]()


def pytest_configure(config: pytest.Config) -> None:
    if not _IS_WORKER and config.getoption("numprocesses", None):
        del os.environ["DJANGO_SETTINGS_MODULE"]  # else workers read their settings before they come to this file
    if _IS_WORKER or os.environ.get("DATABASE_URL") or config.option.collectonly:
        return
    server = PostgresServer(
        Path(os.environ["FAIRSHARE_VAR"]),
        # A test's data need not survive a power cut, only the crash of a process.
        options={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"},
    )
    server.start()
    config.stash[_server] = server


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(_server, None)
    if server is not None:
        server.stop()
    if not _IS_WORKER:
        shutil.rmtree(os.environ["FAIRSHARE_VAR"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks by folder; what shares a browser or the machine's processes stays on one worker (`--dist loadgroup`)."""
    for item in items:
        for folder in ("browser", "faults", "pages"):
            if folder in item.path.relative_to(REPOSITORY).parts:
                item.add_marker(getattr(pytest.mark, folder))
                item.add_marker(pytest.mark.xdist_group(folder))


def missing(what: str) -> None:
    """A test without its material fails in CI and says loudly elsewhere that it didn't run."""
    if IN_CI:
        pytest.fail(f"{what} (CI=true: this may not be skipped)")
    pytest.skip(f"NOT TESTED: {what}")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Traces and vectors lie beside the checkout; they are no part of it."""
    path = REPOSITORY.parent / "shared"
    if not (path / "vectors").is_dir():
        missing(f"no material in {path}")
    return path


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser of the system: CHROME_BIN, chromium or google-chrome."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROME_BIN") or next(filter(None, map(shutil.which, names)), None)
    if not found:
        missing("no Chromium: apt-get install chromium, or set CHROME_BIN")
    return str(found)


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Any]:
    """One for the session: two beside each other would be two event loops."""
    args = [*CHROMIUM_ARGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium_path, args=args)
        yield launched
        launched.close()


@pytest.fixture(autouse=True, scope="session")
def _flush_despite_the_audit_log() -> Iterator[None]:
    """The audit log refuses TRUNCATE, which is how transactional tests clean up after themselves: let them alone."""
    from django.db import OperationalError
    from django.db.backends.postgresql.operations import DatabaseOperations

    original = DatabaseOperations.execute_sql_flush

    def flush(self: DatabaseOperations, sql_list: list[str]) -> None:
        """Again where it met an answer that a browser no longer waits for, and the server still works on."""
        statements = ["SET LOCAL session_replication_role = replica", *sql_list]
        for _ in range(_MOST_DEADLOCKS):
            try:
                return original(self, statements)
            except OperationalError as error:
                if "deadlock" not in str(error):
                    raise
        return original(self, statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "execute_sql_flush", flush)
        yield


@pytest.fixture(autouse=True)
def _no_snapshots_left() -> Iterator[None]:
    """Nothing of one test's priorities is served in the next."""
    from apps.priorities import served

    yield
    served.forget()
