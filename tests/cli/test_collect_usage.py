from __future__ import annotations

import io
import json
import os
import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.runs.workers import record_contact
from apps.usage.models import Record
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import set_up_source
from tests.cli.refusals import code_of

pytestmark = pytest.mark.django_db
LOG = "; UnixStartTime: 1132444805\n1 10 -1 3600 2 -1 -1 -1 -1 -1 1 7 3 -1 -1 40 -1 -1\n"


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("collect_usage", *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def spool(tmp_path: Path, settings: Any) -> Path:
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    given = {"name": "Logs", "kind": "directory", "collecting": {"folder": str(tmp_path), "settle_s": 0}}
    set_up_source(slug="logs", new_settings=given, at=clock.now(), actor=COMMAND)
    return tmp_path


def test_new_records_are_fetched_and_counted_on_standard_output(spool: Path, snapshot: SnapshotAssertion) -> None:
    (spool / "a.swf").write_text(LOG)
    (spool / "b.txt").write_text("what is this?\n")
    os.utime(spool / "a.swf", (1, 1))
    os.utime(spool / "b.txt", (2, 2))
    out, err = run("--source", "logs")
    assert re.findall(r"\d+", out) == ["1", "0", "0", "0", "0", "0", "0"]
    assert "b.txt: " in err
    assert (out, err) == snapshot
    assert json.loads(run("--source", "logs", "--json")[0])["new"] == 0
    assert Record.objects.count() == 1


def test_a_failed_collection_is_reported_with_its_exit_status(spool: Path, settings: Any) -> None:
    settings.FAIRSHARE_COLLECT_FOLDERS = []
    with pytest.raises(CommandError, match="FAIRSHARE_COLLECT_FOLDERS") as refused:
        run("--source", "logs")
    assert refused.value.returncode == 1
    make_source(NewSource(slug="sent", name="Sent"), at=clock.now(), actor=COMMAND)
    with pytest.raises(CommandError) as refused:
        run("--source", "sent")
    assert code_of(refused.value) == "not_collected"
    with pytest.raises(CommandError, match="'nothing'") as refused:
        run("--source", "nothing")
    assert code_of(refused.value) == "not_found"


@pytest.mark.django_db(transaction=True)
def test_workers_collect_with_their_own_settings(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is alive: the command asks, and executes nothing itself."""
    (spool / "a.swf").write_text(LOG)
    os.utime(spool / "a.swf", (1, 1))
    record_contact(clock.now())
    workers: list[threading.Thread] = []

    def work_elsewhere(_seconds: float) -> None:
        """The worker takes the run while the command waits for it."""
        if not workers:
            [asked] = Run.objects.filter(state=Run.State.QUEUED)
            workers.append(threading.Thread(target=_work, args=(asked.pk,)))
            workers[0].start()
        workers[0].join()

    monkeypatch.setattr("apps.runs.services.time.sleep", work_elsewhere)
    out, err = run("--source", "logs")
    assert re.findall(r"\d+", out)[0] == "1"
    assert "No worker" not in err
    assert len(workers) == 1


def _work(run_id: int) -> None:
    work_run_now(run_id)
    connections.close_all()


def test_without_workers_the_command_collects_and_says_so(spool: Path) -> None:
    _, err = run("--source", "logs")
    assert "No worker" in err
    record_contact(clock.now() - timedelta(hours=1))
    _, err = run("--source", "logs")
    assert "No worker" in err
