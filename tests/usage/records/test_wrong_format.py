"""A file that is imported as another format than its own fails, and its own is named."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import Invalid
from apps.pages.sources.imports.reports import import_report
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, Source
from apps.usage.parsers.registry import FORMATS
from apps.usage.services import NewImport, preview_import, start_import
from tests.examples import first
from tests.instants import AT
from tests.usage.parsers.slurm_files import sacct

NAMES = sorted(FORMATS)


def imported(data: bytes, name: str, **options: Any) -> Import:
    new = NewImport(
        source_slug="cluster", format=name, file=io.BytesIO(data), file_name="x", time_zone="UTC", **options
    )
    made = start_import(new, at=AT, actor=COMMAND)
    work_run_now(made.run_id)
    return Import.objects.select_related("run").get(pk=made.pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("real", first(4, NAMES))
def test_every_format_forced_on_another_fails_by_name(source: Source, real: str) -> None:
    sample = FORMATS[real].sample.encode()
    for forced in NAMES:
        made = imported(sample, forced)
        if forced == real:
            assert made.run.state == "succeeded", made.run.error
            continue
        assert (made.run.state, made.run.error_code) == ("failed", "wrong_format"), (forced, made.run.error)
        assert f"It looks like {real} " in made.run.error
        report = import_report(made, AT)
        assert (report.key, report.has_counts) == ("failed.wrong_format", False)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("options", [{"dry_run": True}, {"all_or_nothing": True}])
def test_dry_runs_and_all_or_nothing_fail_alike(source: Source, options: dict[str, bool]) -> None:
    made = imported(sacct({}).encode(), "swf", **options)
    assert (made.run.error_code, Record.objects.count()) == ("wrong_format", 0)


@pytest.mark.django_db
def test_a_preview_is_refused_alike() -> None:
    with pytest.raises(Invalid, match="It looks like sacct ") as caught:
        preview_import(
            source_slug="new", format="pbs", file=io.BytesIO(gzip.compress(sacct({}).encode())), at=AT, actor=COMMAND
        )
    assert caught.value.code == "wrong_format"


@pytest.mark.django_db(transaction=True)
def test_a_file_that_no_format_recognises_lists_its_lines(source: Source) -> None:
    made = imported(b"a diary\nof two lines\n", "swf")
    assert (made.run.state, made.run.result["rejected"]) == ("succeeded", 2)
    report = import_report(made, AT)
    assert report.key == "nothing_read"
    assert "2" in report.heading


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["sacct", "auto"])
def test_a_log_with_returns_as_line_ends_is_imported(source: Source, golden_dir: Path, name: str) -> None:
    data = (golden_dir / "field/s11_resizing.sacct").read_bytes()
    made = imported(data.replace(b"\n", b"\r"), name)
    assert (made.run.state, made.run.result["new"], made.run.result["cpu_s"]) == ("succeeded", 2, 460_800)
