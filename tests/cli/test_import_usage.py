from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from apps.usage.models import Bucket, Record, Source

LOG = """; UnixStartTime: 1132444805
1 10 -1 3600 2 -1 -1 -1 -1 -1 1 7 3 -1 -1 40 -1 -1
2 20 -1 1800 1 -1 -1 -1 -1 -1 1 8 3 -1 -1 41 -1 -1
"""

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("import_usage", *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def test_a_source_is_made_on_first_use_and_counts_go_to_standard_output(log: Path) -> None:
    out, err = run("--source", "grid", str(log))
    assert out == "2 new, 0 duplicate, 0 corrected, 0 late, 0 rejected\n"
    assert "Made the usage source 'grid'" in err
    assert Source.objects.get().namespace == "grid"
    out, err = run("--source", "grid", "--format", "swf", str(log))
    assert (out, err) == ("0 new, 2 duplicate, 0 corrected, 0 late, 0 rejected\n", "")


def test_rejected_lines_are_named_on_standard_error(log: Path) -> None:
    log.write_text(LOG + "oops\n" * 30)
    out, err = run("--source", "grid", str(log))
    assert out.startswith("2 new, 0 duplicate, 0 corrected, 0 late, 30 rejected")
    assert "line 4: too_few_fields:" in err
    assert "10 more" in err


def test_json_tells_everything(log: Path) -> None:
    log.write_text(LOG + "oops\n")
    answer = json.loads(run("--source", "grid", "--json", str(log))[0])
    assert (answer["new"], answer["rejected"], answer["cpu_s"]) == (2, 1, 9000)
    assert answer["notes"] == {"wait_unknown": 2}
    assert [(one["line"], one["code"]) for one in answer["rejected_lines"]] == [(4, "too_few_fields")]


def test_a_dry_run_stores_no_usage(log: Path) -> None:
    assert "2 new" in run("--source", "grid", "--dry-run", str(log))[0]
    assert not Record.objects.exists()
    assert not Bucket.objects.exists()


def test_standard_input_is_read_packed_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, expected in ((LOG.encode(), "2 new"), (gzip.compress(LOG.encode()), "0 new, 2 duplicate")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert run("--source", "grid", "-")[0].startswith(expected)


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08broken", b"JobID|User\n", b"; Version: 2.2\n" + LOG[28:].encode()])
def test_input_that_is_no_log_ends_with_status_two_and_leaves_nothing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        run("--source", "grid", str(path))
    assert caught.value.returncode == 2
    assert not Record.objects.exists()


def test_a_file_without_one_good_line_ends_with_status_two(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("; UnixStartTime: 0\nnot a job\n")
    with pytest.raises(CommandError, match="No line") as caught:
        run("--source", "grid", "--format", "swf", str(path))
    assert caught.value.returncode == 2


def test_wrong_words_end_with_status_two(log: Path, tmp_path: Path) -> None:
    for arguments in (
        ("--source", "a b", str(log)),
        ("--source", "grid", "--time-zone", "Mars/Olympus", str(log)),
        ("--source", "grid", str(tmp_path / "missing")),
        ("--source", "grid", str(tmp_path)),
    ):
        with pytest.raises(CommandError) as caught:
            run(*arguments)
        assert caught.value.returncode == 2
    assert not Source.objects.exists()
