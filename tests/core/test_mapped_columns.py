"""Files of columns that processes map: whole and of what is asked for, or refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from apps.core import mapped_columns
from apps.core.blobs import CorruptBlob
from apps.core.mapped_columns import map_columns, write_columns
from apps.core.strings import Strings

COLUMNS: dict[str, Any] = {
    "numbers": np.arange(5.0),
    "flags": np.array([True, False]),
    "rows": np.arange(6, dtype=np.int32).reshape(2, 3),
    "nothing": np.zeros(0, np.uint64),
    "names": Strings.of(["alice", "", "\u00e9\u65e5"]),
    "blank": Strings.of(["", ""]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "one.values"
    write_columns(path, COLUMNS, {"at": 1}, key="values 1")
    return path


def test_what_is_mapped_equals_what_was_written(path: Path) -> None:
    columns, meta = map_columns(path, key="values 1")
    assert meta == {"at": 1}
    assert set(columns) == set(COLUMNS)
    for name, column in COLUMNS.items():
        if isinstance(column, Strings):
            assert list(columns[name]) == list(column)
        else:
            assert columns[name].dtype == column.dtype
            assert np.array_equal(columns[name], column)
            assert not columns[name].flags.writeable
    assert oct(path.stat().st_mode & 0o777) == "0o400"


def test_each_cut_and_each_changed_byte_is_refused(path: Path) -> None:
    content = path.read_bytes()
    path.chmod(0o600)
    for at in range(0, len(content), 7):
        for changed in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
            path.write_bytes(changed)
            with pytest.raises(CorruptBlob):
                map_columns(path, key="values 1")


def test_a_file_is_not_checked_again_by_its_writer_but_that_of_another_writer_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_columns(path, COLUMNS, {"at": 1}, key="values 1")
    with monkeypatch.context() as without_checksums:
        without_checksums.setattr(mapped_columns, "crc32", None)
        assert map_columns(path, key="values 1", written=own)[1] == {"at": 1}
    write_columns(path, COLUMNS, {"at": 2}, key="values 1")
    assert map_columns(path, key="values 1", written=own)[1] == {"at": 2}
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptBlob):
        map_columns(path, key="values 1", written=own)


def test_another_key_is_refused_by_name(path: Path) -> None:
    with pytest.raises(CorruptBlob, match="It is of values 1"):
        map_columns(path, key="values 2")
    with pytest.raises(FileNotFoundError):
        map_columns(path.with_name("other"), key="values 1")


def test_readers_go_on_with_what_they_mapped(path: Path) -> None:
    columns, _meta = map_columns(path, key="values 1")
    write_columns(path, {"numbers": np.zeros(5)}, {}, key="values 2")
    assert columns["numbers"].tolist() == [0, 1, 2, 3, 4]
    path.unlink()
    assert list(columns["names"]) == ["alice", "", "\u00e9\u65e5"]


@pytest.mark.fault("F21")
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    class FullDisk:
        def __init__(self, stream: Any) -> None:
            self.stream, self.n_left = stream, 100

        def __enter__(self) -> FullDisk:
            return self

        def __exit__(self, *_error: object) -> None:
            self.stream.close()

        def write(self, content: bytes) -> int:
            self.n_left -= len(content)
            if self.n_left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(self.stream.write(content))

    fdopen = os.fdopen
    with (
        patch.object(os, "fdopen", lambda *args: FullDisk(fdopen(*args))),
        pytest.raises(OSError, match="No space"),
    ):
        write_columns(tmp_path / "one.values", COLUMNS, {}, key="values 1")
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, sys
import numpy as np
from pathlib import Path
from apps.core import mapped_columns
mapped_columns._named = lambda checksum: os.kill(os.getpid(), 9)
mapped_columns.write_columns(Path(sys.argv[1]), {"numbers": np.zeros(9)}, {}, key="values 2")
"""


def test_a_writer_that_is_killed_leaves_the_old_file(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert done.returncode == -9
    assert map_columns(path, key="values 1")[1] == {"at": 1}
    assert len(list(path.parent.iterdir())) == 2, "the unfinished file, which has another name"
