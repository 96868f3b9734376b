from __future__ import annotations

import gzip
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from syrupy.assertion import SnapshotAssertion

from apps.accounts.models import Account, AuditEvent
from apps.runs.models import Run
from apps.usage.models import Bucket, Import, Record, Source

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


def test_a_source_is_created_on_first_use_and_counts_are_printed(log: Path, snapshot: SnapshotAssertion) -> None:
    out, err = run("--source", "grid", str(log))
    assert re.findall(r"\d+", out) == ["2", "0", "0", "0", "0"]
    assert "'grid'" in err
    collected = [out, err]
    assert Source.objects.get().namespace == "grid"
    out, err = run("--source", "grid", "--format", "swf", str(log))
    assert (re.findall(r"\d+", out), err) == (["0", "2", "0", "0", "0"], "")
    assert [*collected, out] == snapshot


def test_rejected_lines_are_printed_on_standard_error(log: Path) -> None:
    log.write_text(LOG + "oops\n" * 30)
    out, err = run("--source", "grid", str(log))
    assert re.findall(r"\d+", out) == ["2", "0", "0", "0", "30"]
    assert re.search(r"\b4: too_few_fields:", err)
    assert err.count("too_few_fields") == 20
    assert re.findall(r"\d+", err.splitlines()[-1])[0] == "10"


def test_json_contains_all_results(log: Path) -> None:
    log.write_text(LOG + "oops\n")
    answer = json.loads(run("--source", "grid", "--json", str(log))[0])
    assert (answer["new"], answer["rejected"], answer["cpu_s"]) == (2, 1, 9000)
    assert answer["notes"] == {"wait_unknown": 2}
    assert [(one["line"], one["code"]) for one in answer["rejected_lines"]] == [(4, "too_few_fields")]


def test_a_dry_run_stores_no_usage(log: Path) -> None:
    assert re.findall(r"\d+", run("--source", "grid", "--dry-run", str(log))[0])[0] == "2"
    assert not Record.objects.exists()
    assert not Bucket.objects.exists()


def test_a_dry_run_creates_no_source_and_counts_the_same(log: Path) -> None:
    log.write_text(LOG + "oops\n" + LOG.splitlines()[1] + "\n")
    dry, real = (json.loads(run("--source", "grid", "--json", *more, str(log))[0]) for more in (["--dry-run"], []))
    assert (dry.pop("import"), dry.pop("dry_run")) == (None, True)
    assert real.pop("import") is not None
    assert real.pop("dry_run") is False
    assert dry == real
    assert (dry["new"], dry["duplicate"], dry["rejected"]) == (2, 1, 1)


def test_a_dry_run_for_a_new_source_stores_nothing_at_all(log: Path, settings: Any) -> None:
    settings.VAR = log.parent / "var"
    out, err = run("--source", "grid", "--dry-run", str(log))
    assert out.startswith("2 new")
    assert "Made" not in err
    for kind in (Source, Import, Run, Account, AuditEvent):
        assert not kind.objects.exists()
    assert not [path for path in settings.VAR.rglob("*") if path.is_file()]
    with pytest.raises(CommandError) as caught:
        run("--source", "a b", "--dry-run", str(log))
    assert caught.value.returncode == 2


def test_standard_input_is_read_plain_or_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, expected in ((LOG.encode(), ["2", "0"]), (gzip.compress(LOG.encode()), ["0", "2"])):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert re.findall(r"\d+", run("--source", "grid", "-")[0])[:2] == expected


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08broken", b"JobID|User\n", b"; Version: 2.2\n" + LOG[28:].encode()])
def test_input_that_is_not_a_log_exits_with_2_and_stores_nothing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        run("--source", "grid", str(path))
    assert caught.value.returncode == 2
    assert not Record.objects.exists()


def test_a_file_without_a_valid_line_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("; UnixStartTime: 0\nnot a job\n")
    with pytest.raises(CommandError) as caught:
        run("--source", "grid", "--format", "swf", str(path))
    assert caught.value.returncode == 2
    made = Import.objects.get()
    assert (made.run.state, made.run.counts["rejected"]) == ("succeeded", 1)


def test_wrong_arguments_exit_with_2(log: Path, tmp_path: Path) -> None:
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
