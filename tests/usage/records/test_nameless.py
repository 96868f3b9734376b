"""Jobs whose user's name the scheduler's host didn't know: a number or `nobody` gets no account for good."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.models import Account
from apps.usage.models import Record, Source
from apps.usage.parsers.base import RecordBatch
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.records.ingest import NAMELESS, ingest_batch
from apps.usage.services import preview_import
from apps.usage.sources.open_listings import ingest_listing
from tests.instants import AT
from tests.usage.parsers.slurm_files import READING, only, sacct

pytestmark = pytest.mark.django_db

T0 = 1_767_225_600
OPEN = {"State": "RUNNING", "End": "Unknown"}
WAITS = {"State": "PENDING", "Start": "Unknown", "End": "Unknown"}
NOW = datetime.fromtimestamp(T0 + 600, UTC)


def users() -> list[str]:
    return sorted(Account.objects.values_list("user_name", flat=True))


def listed(user: str | None, uid: int | None = 20011, **given: Any) -> RecordBatch:
    job = {"job_id": 4711, "cluster": "fram", "user_name": user, "user_id": uid, "account": "physics"}
    job |= {"job_state": ["RUNNING"], "submit_time": T0, "start_time": T0 + 60, "tres_alloc_str": "cpu=8,node=1"}
    return only(json.dumps({"jobs": [job | given], "errors": []}), READING, SlurmQueue())


NAMELESS_LISTINGS = [("20011", 20011), ("", 20011), (None, 20011), ("nobody", 20011), ("20011", None), ("nobody", None)]


@pytest.mark.parametrize(("user", "uid"), NAMELESS_LISTINGS)
@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETED"])
def test_a_listing_without_names_makes_no_account(
    source: Source, user: str | None, uid: int | None, state: str
) -> None:
    batch = listed(user, uid, job_state=[state], end_time=T0 + 500)
    counts = ingest_listing(source, batch, NOW)
    assert (counts.new, counts.rejected, users()) == (0, 1, [])
    assert counts.rejections[0].code == NAMELESS
    assert "4711" in counts.rejections[0].message


@pytest.mark.parametrize(("user", "uid"), NAMELESS_LISTINGS)
def test_a_stored_job_goes_on_under_its_name_while_names_are_unknown(
    source: Source, user: str | None, uid: int | None
) -> None:
    ingest_listing(source, listed("ada", job_state=["PENDING"], start_time=0), NOW)
    counts = ingest_listing(source, listed(user, uid), NOW + timedelta(minutes=1))
    assert (counts.corrected, counts.rejected, counts.vanished) == (1, 0, 0)
    counts = ingest_listing(source, listed(user, uid), NOW + timedelta(minutes=2))
    assert (counts.duplicate, counts.rejected, counts.vanished, users()) == (1, 0, 0, ["ada"])
    assert Record.objects.get().seen_at == NOW + timedelta(minutes=2)
    assert ingest_batch(source=source, rows=only(sacct({"User": "ada"})), at=AT).corrected == 1
    assert (Record.objects.get().state, users()) == ("finished", ["ada"])


def test_a_rejected_job_is_new_once_it_has_a_name(source: Source) -> None:
    ingest_listing(source, listed("nobody"), NOW)
    assert ingest_listing(source, listed("ada"), NOW).new == 1
    assert users() == ["ada"]


def test_a_login_of_digits_alone_is_a_name(source: Source) -> None:
    assert ingest_listing(source, listed("20011", 5017), NOW).new == 1
    assert users() == ["20011"]


@pytest.mark.parametrize("state", [OPEN, WAITS])
@pytest.mark.parametrize("given", [{"User": "", "UID": "20011"}, {"User": "20011", "UID": "20011"}, {"User": "nobody"}])
def test_open_rows_of_accounting_make_no_account(source: Source, state: Any, given: dict[str, str]) -> None:
    counts = ingest_batch(source=source, rows=only(sacct(state | given)), at=AT)
    assert (counts.new, counts.rejected, users()) == (0, 1, [])


def test_ended_rows_of_accounting_are_facts(source: Source) -> None:
    ended = only(sacct({"User": "", "UID": "20011"}, {"JobIDRaw": "2", "User": "nobody"}))
    assert ingest_batch(source=source, rows=ended, at=AT).new == 2
    assert users() == ["20011", "nobody"]
    running = only(sacct(OPEN | {"JobIDRaw": "3", "User": "", "UID": "20011"}))
    assert ingest_batch(source=source, rows=running, at=AT).new == 1, "the number has an account already"


@pytest.mark.parametrize(("state", "n_new"), [("RUNNING", 0), ("COMPLETED", 1)])
def test_json_of_accounting_follows_the_same_rule(source: Source, state: str, n_new: int) -> None:
    time = {"submission": T0, "start": T0 + 60, "end": T0 + 500 if n_new else 0, "elapsed": 440}
    job = {"job_id": 1, "user": "20011", "state": {"current": [state]}, "time": time}
    job["tres"] = {"allocated": [{"type": "cpu", "count": 8}, {"type": "node", "count": 1}], "requested": []}
    batch = only(json.dumps({"jobs": [job], "errors": []}), READING, SacctJson())
    assert ingest_batch(source=source, rows=batch, at=AT).new == n_new


def test_a_dry_run_counts_alike() -> None:
    data = sacct(OPEN | {"User": "nobody"}, {"JobIDRaw": "2"}).encode()
    _source, found = preview_import(source_slug="new", format="auto", file=io.BytesIO(data), at=AT, actor=COMMAND)
    assert (found.result["new"], found.result["rejected"], found.result["by_code"]) == (1, 1, {NAMELESS: 1})
