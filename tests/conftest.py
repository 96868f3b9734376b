"""One embedded PostgreSQL for the whole session; settings are chosen here, before anything imports a model."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import pytest_django
from django.conf import settings

from apps.cli.stack.paths import read_or_make_secret, socket_dir, write_once
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.core.private_dirs import private_dir
from fairshare_web.log_filters import LimitRepeats
from tests.core.outbound_servers import certified, connects, serve, squid, trusted  # noqa: F401 - fixtures
from tests.databases import Databases, World
from tests.examples import register_profiles
from tests.frames import call_with_room
from tests.instants import AT
from tests.start import (
    find_room,
    forget_other_databases,
    is_engine_alone,
    keep_bytecode,
    make_var,
    schema_folder,
    set_up_django,
)

CHROMIUM_ARGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=1",  # pages of one context share a process, and with it what is compiled
)
REPOSITORY = Path(__file__).resolve().parent.parent
_ENDS_S = "FAIRSHARE_TESTS_END_S"  # Unix time, for the workers
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ

# pytest-xdist's workers inherit what the controller decided here.
if not _IS_WORKER:
    if settings.configured:  # too early: the tests would write into the database of a running instance
        raise pytest.UsageError(
            "Unset DJANGO_SETTINGS_MODULE and leave out --ds: the suite chooses its settings itself."
        )
    keep_bytecode()
    find_room()
    forget_other_databases()
    os.environ["FAIRSHARE_VAR"] = make_var()
    os.environ["FAIRSHARE_TESTING"] = "1"
    os.environ.pop("FAIRSHARE_CLOCK", None)
else:  # files of one worker are no business of another; the server they share
    _shared = Path(os.environ["FAIRSHARE_VAR"])
    _own = _shared / os.environ["PYTEST_XDIST_WORKER"]
    private_dir(_own)
    if "DATABASE_URL" not in os.environ:
        (_own / "socket").symlink_to(socket_dir(_shared))
    for _name in ("secret_key", "token_pepper", "pseudonym_key"):  # worlds made once for all workers hold sealed values
        write_once(_own / _name, read_or_make_secret(_name, var=_shared) + "\n")
    os.environ["FAIRSHARE_VAR"] = str(_own)
register_profiles()

pytest_plugins = [
    "tests.material",
    "tests.faults_by_name",
    "tests.papers_by_claim",
    "tests.whole_run",
    "tests.machine_code",
    "tests.fresh_examples",
    "pytester",
]
if not is_engine_alone(sys.argv[1:]):
    set_up_django()
    pytest.register_assert_rewrite("tests.contrib")  # before those of plug-ins are imported
    from tests.plugin_parts import parts
    from tests.worlds import (  # noqa: F401 - fixtures
        closed_grid,
        computed_site,
        feed_teller,
        grid_site,
        known_world,
        large_grid,
        long_grid,
        month_of_days,
        mounted_site,
        open_grid,
        placed_site,
        published_policy,
        restored_feed,
        revised_days,
        rights_world,
        sample_grid,
        small_site,
        two_projects,
        unused_grid,
        vo_mounted,
        vo_policy,
        vo_second_version,
        vo_subscribed,
        vo_usage_accepted,
        vo_usage_held,
    )

    pytest_plugins += [part.__name__ for part in parts("worlds")]
_server = pytest.StashKey[PostgresServer]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also what takes long: tests marked `deep` (make night)")
    parser.addoption("--minutes", type=float, help="begin no test later than so many minutes after the first")


def pytest_configure(config: pytest.Config) -> None:
    minutes = config.getoption("minutes")
    if not _IS_WORKER and minutes is not None:
        os.environ[_ENDS_S] = str(time.time() + minutes * 60)
    if not (config.getoption("deep") and not config.option.markexpr):  # tests are left out, their snapshots stay
        config.option.warn_unused_snapshots = True
    if not _IS_WORKER and config.getoption("numprocesses", None):
        # Else workers read their settings before they load this file.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)
        if not config.option.collectonly and not is_engine_alone(sys.argv[1:]):
            start_server(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(_ENDS_S, "inf")):
        pytest.skip(f"the {item.config.getoption('minutes'):g} minutes are over")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    test = pyfuncitem.obj
    pyfuncitem.obj = partial(call_with_room, test)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def start_server(config: pytest.Config) -> None:
    """The suite's own PostgreSQL, once; its workers find it running."""
    if _IS_WORKER or os.environ.get("DATABASE_URL") or _server in config.stash:
        return
    server = PostgresServer(
        Path(os.environ["FAIRSHARE_VAR"]),
        # A test's data need not survive a power cut, only the crash of a process.
        options={
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": "300",
            "autovacuum": "off",
            "wal_level": "minimal",
            "max_wal_senders": "0",
        },
    )
    try:
        server.start()
    except CannotStart as refusal:
        raise pytest.UsageError(str(refusal)) from refusal
    config.stash[_server] = server


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(_server, None)
    if server is not None:
        server.stop()
    if not _IS_WORKER:
        shutil.rmtree(os.environ["FAIRSHARE_VAR"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for among modules and tests that stay until the process ends."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude what is there from garbage collection: modules and tests stay until the process ends, and looking for the
    little that doesn't takes a second."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


# Rules of alerts and pages of the documentation are about everything that is installed by default; agents of real
# schedulers need the plug-in of schedulers; the fuzzers read what plug-ins read, too.
WHOLE_PRODUCT = ("docsite", "fuzz", "monitoring", "real_schedulers", "test_bench.py")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests of plug-ins that aren't installed, and of the whole product where one of its plug-ins isn't."""
    left_out = settings.FAIRSHARE_PLUGINS_LEFT_OUT if settings.configured else ()
    if not left_out:
        return None
    folder, *below = collection_path.relative_to(REPOSITORY / "tests").parts or ("",)
    if folder == "contrib" and below:
        plugin = f"apps.contrib.{below[0]}"
        return (plugin in left_out or (collection_path.suffix == ".py" and len(below) == 1)) or None
    return folder in WHOLE_PRODUCT or None


DEEP_PATIENCE = 4  # many examples, beside a grid of nine instances


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what wasn't asked for; mark the others by folder."""
    if not config.getoption("deep"):
        left_out = {item for item in items if item.get_closest_marker("deep")}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if settings.configured and settings.FAIRSHARE_PLUGINS_LEFT_OUT:
        left_out = {item for item in items if item.get_closest_marker("product")}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        for folder in _folders(item.path) & {"browser", "faults", "pages"}:
            item.add_marker(getattr(pytest.mark, folder))
        if config.getoption("deep"):
            own = item.get_closest_marker("timeout")
            seconds = float(own.args[0] if own else config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(DEEP_PATIENCE * seconds), append=False)


@cache
def _folders(path: Path) -> frozenset[str]:
    return frozenset(path.relative_to(REPOSITORY / "tests").parts)


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """The agent's files are its own; those of later tests in this process are not."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def _no_attempts_to_sign_in() -> None:
    """Of earlier tests, which came from the same address."""
    attempts = sys.modules.get("apps.pages.sign_in.views")
    if attempts is not None:
        attempts.forget_attempts()


@pytest.fixture(autouse=True)
def _no_repeats_in_the_log() -> None:
    """Of earlier tests: the next line would count those that there was no room for."""
    for handler in logging.getLogger().handlers:
        for limit in handler.filters:
            if isinstance(limit, LimitRepeats):
                limit.forget()


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Any]:
    """One a process: two beside each other would be two event loops."""
    args = [*CHROMIUM_ARGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium_path, args=args)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def live_server() -> Iterator[Any]:
    """pytest-django's, with static files from memory."""
    from pytest_django.live_server_helper import LiveServer

    from tests.browser.live_files import KeptFilesHandler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.contrib.staticfiles.handlers.StaticFilesHandler", KeptFilesHandler)
        server = LiveServer("localhost")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[Databases]:
    from django.db import connection
    from django.test import TransactionTestCase

    start_server(request.config)
    found = Databases(
        connection.settings_dict,
        suffix=os.environ.get("PYTEST_XDIST_WORKER", ""),
        schemas=schema_folder(),
    )
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        found.prepare()
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)  # a copy is dropped, not emptied
        yield found
        found.drop_all()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, databases: Databases) -> None:
    """In place of pytest-django's, which migrates a database for every process."""


@pytest.fixture
def world_of_test(
    request: pytest.FixtureRequest, databases: Databases, django_db_blocker: pytest_django.DjangoDbBlocker
) -> Iterator[World]:
    """The database that a test begins with: that of the world it names, or the empty one; a copy where it commits."""
    from tests import world_fixtures, worlds

    named = world_fixtures.named_by(request.fixturenames)
    with django_db_blocker.unblock():
        if named:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
                worlds.forget_process()  # of the last test, and afterwards of the making
                world = databases.world(named, world_fixtures.MAKERS[named], is_shared=named in world_fixtures.SHARED)
            worlds.forget_process()
        else:
            world = World(databases.empty, None)
            databases.use(world.database)
    if not commits(request):
        yield world
        return
    with django_db_blocker.unblock():
        name = databases.copy(world.database)
    yield world
    if live_files := sys.modules.get("tests.browser.live_files"):
        live_files.wait_until_idle()
    with django_db_blocker.unblock():
        databases.use(databases.empty)
        databases.check_empty()
        databases.release_copy(name, world.database)


def commits(request: pytest.FixtureRequest) -> bool:
    """Whether pytest-django gives the test no transaction around it."""
    marker = request.node.get_closest_marker("django_db")
    return bool(marker and marker.kwargs.get("transaction")) or bool(
        {"transactional_db", "live_server"} & set(request.fixturenames)
    )


@pytest.fixture
def _django_db_helper(world_of_test: World, _django_db_helper: None) -> Iterator[None]:
    """What pytest-django opens a test's transaction in: the database is chosen before."""
    from django.db import connection

    yield
    assert not getattr(connection, "_waiting", []), (
        "What waits for this test's transaction would be done after its rollback."
    )


@pytest.fixture
def world(rights_world: Any, settings: Any) -> Any:
    """The site of the rights matrix, under the name that it was made with."""
    from apps.priorities.serving import store
    from tests.rights_world import ISSUER

    settings.FAIRSHARE_ISSUER = ISSUER
    store.poll()
    return rights_world


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """Nothing that one test left in memory is seen by the next, and nothing continues to read its database."""
    yield
    looking = [thread.name for thread in threading.enumerate() if thread.name == "snapshots"]
    assert not looking, "A thread of this test polls for snapshots until the process ends: patch store's `start`."
    if worlds := sys.modules.get("tests.worlds"):
        worlds.forget_process()
