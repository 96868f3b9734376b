"""How a test process begins: where it may write, without what a shell says of other databases, with Django or not."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from apps.cli.stack.var_lock import VarLock
from apps.core.private_dirs import InsecureDirectory

_ENGINE = Path(__file__).parent / "engine"
_ROOM_BYTES = 1 << 30  # two workers' databases, browser profiles and imports
_VAR, _LOCK = "fairshare-tests-", "postgres.lock"
_MEMORY = "/dev/shm"
_MEMORY_BYTES = 4 << 30  # more than the databases of six workers take
_locks: list[VarLock] = []  # held until the process ends


def find_room() -> None:
    """Use the first temporary folder with a gibibyte left, here and in every process that is started."""
    candidates = [tempfile.gettempdir(), "/var/tmp", str(Path(__file__).parents[1] / "var" / "tmp")]
    for folder in candidates:
        if _free_bytes(folder) >= _ROOM_BYTES:
            if folder != candidates[0]:
                print(f"{candidates[0]} has no room left: the tests use {folder}.", file=sys.stderr)
            tempfile.tempdir = os.environ["TMPDIR"] = folder
            return
    sys.exit(f"None of {', '.join(candidates)} has 1 GiB left: set TMPDIR to a folder that has.")


def make_var() -> str:
    """In memory where there is plenty: each database is a thousand files, which a disk takes longer to create."""
    _remove_abandoned()
    is_large = _free_bytes(_MEMORY) >= _MEMORY_BYTES
    while True:
        folder = tempfile.mkdtemp(prefix=_VAR, dir=_MEMORY if is_large else None)
        lock = VarLock(Path(folder), _LOCK)
        if lock.take():  # else another run has just removed it
            _locks.append(lock)
            return folder


def _remove_abandoned() -> None:
    """Of runs that were killed: in memory, nothing else would remove them. The kernel has released their locks."""
    for path in Path(_MEMORY).glob(f"{_VAR}*/{_LOCK}"):
        with suppress(OSError, InsecureDirectory):
            lock = VarLock(path.parent, _LOCK)
            if lock.take():
                shutil.rmtree(path.parent, ignore_errors=True)
                lock.release()


def _free_bytes(folder: str) -> int:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(folder).free if os.access(folder, os.W_OK | os.X_OK) else 0
    except OSError:
        return 0


def keep_bytecode() -> None:
    """Some shells and images turn it off: then each of many processes would compile all that it imports."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def forget_other_databases() -> None:
    """PGHOST, PGSERVICE and their like lead to the developer's own PostgreSQL; PG_BIN names programs and stays."""
    for name in [name for name in os.environ if name.startswith("PG") and name != "PG_BIN"]:
        del os.environ[name]


def schema_folder() -> Path:
    """Where dumps of the schema are kept from run to run; where the checkout can't be written, for this run."""
    kept = Path(__file__).parents[1] / ".pytest_cache" / "schemas"
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        kept = Path(os.environ["FAIRSHARE_VAR"])
    return kept if os.access(kept, os.W_OK) else Path(os.environ["FAIRSHARE_VAR"])


def is_engine_alone(arguments: Sequence[str]) -> bool:
    """Whether the command line names nothing but tests of the engine, which start in a second without Django."""
    paths = [each.partition("::")[0] for each in arguments]
    found = [os.path.realpath(path) for path in paths if os.path.exists(path)]  # unlike Path, also for any text
    return bool(found) and all(Path(path).is_relative_to(_ENGINE) for path in found)


def set_up_django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # playwright's own event loop runs in the test's thread
    import django
    from django.conf import settings

    django.setup()
    # Each request polls for newer priorities and for tokens itself: a thread would see nothing of a test's transaction.
    settings.FAIRSHARE_SNAPSHOT_POLL_S = 0.0
    settings.FAIRSHARE_TOKEN_PATIENCE_S = 0.0
    # Production's Argon2 is slow on purpose; tests/accounts/test_passwords.py holds the setting to it.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
