"""What holds for every format of the registry."""

from __future__ import annotations

import io
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings

from apps.core.errors import Invalid
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import FORMATS, format_of
from tests.instants import AT
from tests.usage.parsers.reading import Read, jobs_of, read

NAMES = sorted(FORMATS)
USAGE_MD = (Path(settings.BASE_DIR) / "docs" / "usage.md").read_text(encoding="utf-8")

# Even a document without a job has a beginning and an end in these.
NEVER_EMPTY = {
    "gridengine-queue": "cut_off",
    "ogf-ur": "broken_xml",
    "sacct-json": "no_jobs",
    "squeue-json": "no_jobs",
}


def read_or_refuse(name: str, data: bytes) -> Read | Invalid:
    try:
        return read(FORMATS[name], data, zone=ZoneInfo("UTC"))
    except Invalid as refusal:
        return refusal


@pytest.mark.parametrize("name", NAMES)
def test_a_format_recognises_its_own_sample_and_no_other_does(name: str) -> None:
    head = FORMATS[name].sample.encode()
    assert format_of("auto", head).name == name
    assert [other for other, collector in FORMATS.items() if collector.sniff(head)] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_is_read_without_rejections(name: str) -> None:
    found = read(FORMATS[name], FORMATS[name].sample, zone=ZoneInfo("Europe/Stockholm"))
    assert found.rejections == []
    assert found.jobs


@pytest.mark.parametrize("name", NAMES)
def test_only_formats_that_declare_it_need_a_zone(name: str) -> None:
    codes = {code for _, code in read(FORMATS[name], FORMATS[name].sample).codes}
    has_local_times = FORMATS[name].needs_zone and name != "sacct"  # whose sample counts seconds
    assert codes == ({"naive_time"} if has_local_times else set())


@pytest.mark.parametrize("name", NAMES)
def test_a_format_documents_itself_and_its_fields(name: str) -> None:
    collector = FORMATS[name]
    assert collector.name == name
    assert re.fullmatch(r"[a-z][a-z0-9-]{1,31}", name)
    assert collector.label
    assert collector.reference.startswith("https://")
    assert len(collector.fields) >= 3
    assert all(field.name and field.meaning for field in collector.fields)
    assert re.search(rf"^\| `{name}` \|", USAGE_MD, re.MULTILINE), "docs/usage.md lists every format"


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_file_and_blank_lines_contain_no_records(name: str) -> None:
    for data in (b"", b"\n\n\r\n"):
        found = read_or_refuse(name, data)
        codes = [found.code] if isinstance(found, Invalid) else [code for _, code in found.codes]
        assert codes == ([NEVER_EMPTY[name]] if name in NEVER_EMPTY else [])
        if isinstance(found, Read):
            assert found.jobs == []


@pytest.mark.parametrize("name", NAMES)
def test_ten_megabytes_without_a_line_end_are_refused_in_time_and_memory(name: str) -> None:
    """Behind the sample, so that the format is on its way already."""
    data = FORMATS[name].sample.encode() + b"x" * 10 * 1024**2
    found = read_or_refuse(name, data)
    if isinstance(found, Invalid):
        assert found.code
        return
    assert found.rejections
    assert all(len(one.excerpt) <= 480 and len(one.message) <= 512 for one in found.rejections)


def test_a_log_with_leading_comments_is_recognised_by_its_first_line() -> None:
    pbs = b"; UnixStartTime: 1734800289\n;\n12/21/2024 17:58:09;Q;1.pbs;user=a ctime=1734800289\n"
    assert format_of("auto", pbs).name == "pbs"
    assert format_of("auto", b"; Version: 2.2\n; Computer: x\n").name == "swf"


@pytest.mark.parametrize(
    "head", [b"", b"\0\1\2\3", b"a,b,c\n1,2,3\n", b"<html><body/></html>", b'{"a": 1}\n', b"{}", b"[]"]
)
def test_an_unrecognised_file_is_rejected_with_the_list_of_formats(head: bytes) -> None:
    with pytest.raises(Invalid, match=r"isn't recognised.*Grid Engine.*Slurm") as caught:
        format_of("auto", head)
    assert caught.value.code == "unknown_format"


@pytest.mark.parametrize("name", NAMES)
def test_parsing_is_independent_of_chunk_sizes(name: str) -> None:
    """A stream that gives one small piece after the other reads the same."""
    sample = FORMATS[name].sample
    whole = read(FORMATS[name], sample, zone=ZoneInfo("UTC"))

    class Dripping(io.BytesIO):
        def read(self, n: int | None = -1) -> bytes:
            return super().read(7 if n is None or n < 0 else min(n, 7))

    pieces = FORMATS[name].parse(Dripping(sample.encode()), Reading(AT, ZoneInfo("UTC")))
    assert [job for piece in pieces for job in jobs_of(piece.batch)] == whole.jobs
