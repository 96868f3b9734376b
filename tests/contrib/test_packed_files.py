"""Packed files that plug-ins read: each reads all members, or refuses the file, as the core does."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.conf import LazySettings

from apps.contrib.lab.experiments.traces import read_log
from apps.contrib.lab.scenario_files import TraceFiles
from apps.contrib.schedulers.api.views import _unpacked as unpack_report
from tests.core.test_packing import SPOILT, TEXT, WHOLE, cut_files, is_refused, zstd


def by_trace_files(data: bytes) -> bytes:
    with open("log.swf.gz", "wb") as file:
        file.write(data)
    return TraceFiles([])["log.swf.gz"].encode()


READERS: dict[str, Callable[[bytes], bytes]] = {
    "experiments": lambda data: b"%d" % len(read_log(data)[0].at_s),
    "scenarios": by_trace_files,
    "reports of agents": unpack_report,
}


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings.VAR = tmp_path
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_all_members_of_a_packed_file(reader: str) -> None:
    expected = b"900" if reader == "experiments" else TEXT
    for name, data in WHOLE.items():
        assert READERS[reader](data) == expected, name


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_accepts_a_part_of_a_packed_file(reader: str) -> None:
    assert [name for name, data in SPOILT.items() if not is_refused(READERS[reader], data)] == []
    assert [len(cut) for cut in cut_files() if not is_refused(READERS[reader], cut)] == []


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_gzip_alone_refuse_zstd(reader: str) -> None:
    assert is_refused(READERS[reader], zstd(TEXT))
