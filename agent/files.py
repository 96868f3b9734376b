"""Replace a file as a whole, so that kill -9 leaves the old one or the new one."""

import os
import re
import tempfile

_NEW = re.compile(r"\.new-[a-z0-9_]{8}", re.ASCII)  # what mkstemp adds to the name


def replace_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write and sync `content`; one process alone may write the file.

    What a killed process left of an earlier attempt is removed. Raises: OSError, and the file is unchanged.
    """
    folder, name = os.path.split(os.path.abspath(path))
    for each in os.listdir(folder):
        if each.startswith(name) and _NEW.fullmatch(each, len(name)):
            os.unlink(os.path.join(folder, each))
    handle, new = tempfile.mkstemp(prefix=name + ".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
