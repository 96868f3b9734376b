"""Unused time of reservations: off by default; on, it and the jobs of the reservation are what was reserved, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import Invalid, Unavailable
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Record, Source
from apps.usage.sources.reservations import read_reservations
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from tests.usage.sources.slurmrestd_server import Daemon, specification

AT = datetime(2027, 1, 1, tzinfo=UTC)
START, END = AT - timedelta(hours=3), AT - timedelta(hours=1)
PARSER = "v0.0.45"
pytestmark = pytest.mark.django_db


def seconds(at: datetime) -> int:
    return int(at.timestamp())


def reservation(**changed: Any) -> dict[str, Any]:
    whole = {
        "name": "course",
        "accounts": "phys",
        "start_time": {"set": True, "infinite": False, "number": seconds(START)},
        "end_time": {"set": True, "infinite": False, "number": seconds(END)},
        "tres": "cpu=64",
        "partition": "batch",
        "flags": ["SPEC_NODES"],
    }
    return {**whole, **changed}


def job(number: int, begin_s: int, run_s: int, cpus: int, *, name: str = "course") -> dict[str, Any]:
    """A finished job; begin_s: seconds after the start of the reservation."""
    start_s = seconds(START) + begin_s
    amounts = [{"type": "cpu", "name": "", "count": cpus}, {"type": "node", "name": "", "count": 1}]
    return {
        **{"job_id": number, "cluster": "fjord", "user": "ann", "account": "phys", "partition": "batch"},
        **{"qos": "normal", "state": {"current": ["COMPLETED"]}, "reservation": {"name": name}},
        "time": {"submission": start_s - 60, "start": start_s, "end": start_s + run_s, "elapsed": run_s},
        "tres": {"allocated": amounts, "requested": amounts},
    }


@pytest.fixture
def daemon(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon({"/openapi/v3": specification(PARSER)})
    answer_with(made, [reservation()], [])
    settings.FAIRSHARE_OUTBOUND_ALLOW = [made.place]
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    (tmp_path / "slurm").touch(0o600)
    (tmp_path / "slurm").write_text("a.token.here")
    yield made
    made.close()


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    def collect_at(at: datetime) -> None:
        monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        run = work_run_now(enqueue_collection(Source.objects.get(), at=at).pk)
        assert run.state == "succeeded", run.error

    return collect_at


def answer_with(daemon: Daemon, reservations: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> None:
    daemon.answers |= {
        f"/slurm/{PARSER}/reservations": (200, orjson.dumps({"reservations": reservations, "errors": []})),
        f"/slurmdb/{PARSER}/jobs": (200, orjson.dumps({"jobs": jobs, "errors": []})),
        f"/slurm/{PARSER}/jobs": (200, orjson.dumps({"jobs": [], "errors": []})),
    }


def slurm(daemon: Daemon, **terms: Any) -> Source:
    whole = {"address": daemon.address, "look_back_s": 86400, **terms}
    new = {"name": "Slurm", "kind": "slurm-rest", "collecting": whole, "cluster": "fjord"}
    return set_up_source(slug="slurm", new_settings=new, at=AT, actor=COMMAND)


def charged() -> list[Any]:
    """Account, CPU-seconds and time of each charge."""
    rows = Record.objects.filter(is_charge=True).select_related("account")
    spans = [(row, (row.end_at - row.start_at).total_seconds()) for row in rows if row.end_at and row.start_at]
    return [(row.account.group_name, row.cpus * span_s, span_s) for row, span_s in spans]


def core_s() -> Any:
    return float(sum(Bucket.objects.values_list("cpu_s", flat=True)))


def test_nothing_is_charged_unless_the_settings_say_so(daemon: Daemon, collect: Callable[[datetime], None]) -> None:
    assert slurm(daemon).collecting["reservations"] is False
    collect(AT)
    assert (charged(), f"/slurm/{PARSER}/reservations" in daemon.paths) == ([], False)


def test_what_jobs_of_the_reservation_did_not_hold_is_charged_once(
    daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    """64 CPUs for two hours: the charge and the jobs are 460,800 CPU-seconds together, whatever arrives when."""
    slurm(daemon, reservations=True)
    collect(START + timedelta(hours=1))
    assert charged() == []  # it isn't over
    inside, over_its_end = job(1, 600, 1800, 16), job(2, 7200 - 900, 1800, 64)
    answer_with(daemon, [], [inside, over_its_end, job(3, 60, 60, 64, name="another")])
    collect(AT)
    reserved = 64 * 7200
    assert charged() == [("phys", pytest.approx(reserved - 16 * 1800 - 64 * 900), 7200.0)]
    assert core_s() == pytest.approx(reserved + 64 * 900 + 64 * 60)
    for minutes in (5, 10):  # the same again, and a job that is reported late
        collect(AT + timedelta(minutes=minutes))
        assert (len(charged()), core_s()) == (1, pytest.approx(reserved + 64 * 900 + 64 * 60))
    answer_with(daemon, [], [inside, over_its_end, job(4, 0, 3600, 8)])
    collect(AT + timedelta(minutes=15))
    assert charged() == [("phys", pytest.approx(reserved - 16 * 1800 - 64 * 900 - 8 * 3600), 7200.0)]
    assert core_s() == pytest.approx(reserved + 64 * 900 + 64 * 60)
    assert Record.objects.get(is_charge=True).job == "reservation course"


def test_a_full_reservation_is_charged_nothing_and_never_less(
    daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    slurm(daemon, reservations=True)
    answer_with(daemon, [reservation()], [job(1, 0, 7200, 64), job(2, 0, 7200, 64)])
    collect(AT)
    assert charged() == [("phys", 0.0, 7200.0)]
    assert core_s() == 2 * 64 * 7200


def test_each_day_of_a_daily_reservation_is_charged_by_itself(
    daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    slurm(daemon, reservations=True)
    later = {"set": True, "infinite": False, "number": seconds(END) + 86400}
    answer_with(daemon, [reservation()], [])
    collect(AT)
    tomorrow = reservation(start_time=seconds(START) + 86400, end_time=later)
    answer_with(daemon, [tomorrow], [])
    collect(AT + timedelta(hours=12))
    collect(AT + timedelta(days=1))
    assert charged() == [("phys", 64 * 7200.0, 7200.0)] * 2


def test_a_reservation_that_is_deleted_is_charged_until_it_was_listed_last(
    daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    slurm(daemon, reservations=True)
    collect(START + timedelta(minutes=30))
    answer_with(daemon, [], [job(1, 600, 600, 16)])
    collect(START + timedelta(minutes=40))
    expected = [("phys", pytest.approx(64 * 1800 - 16 * 600), 1800.0)]
    assert charged() == expected
    collect(AT)
    assert charged() == expected


@pytest.mark.parametrize("moved_s", [0, 86400])
def test_a_reservation_that_is_deleted_or_moved_before_it_begins_is_not_charged(
    moved_s: int, daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    slurm(daemon, reservations=True)
    collect(START - timedelta(hours=1))
    times = {"start_time": seconds(START) + moved_s, "end_time": seconds(END) + moved_s}
    answer_with(daemon, [reservation(**times)] if moved_s else [], [])
    collect(START - timedelta(minutes=55))
    answer_with(daemon, [], [])
    collect(AT)
    assert (charged(), core_s()) == ([], 0.0)


def test_a_reservation_that_is_extended_after_its_charge_is_charged_to_its_new_end(
    daemon: Daemon, collect: Callable[[datetime], None]
) -> None:
    slurm(daemon, reservations=True)
    collect(END)
    assert charged() == [("phys", 64 * 7200.0, 7200.0)]
    answer_with(daemon, [reservation(end_time=seconds(END) + 1800)], [])
    collect(END + timedelta(minutes=5))
    collect(AT)
    assert charged() == [("phys", 64 * 9000.0, 9000.0)]


def test_a_charge_of_a_clock_that_was_ahead_is_corrected(daemon: Daemon, collect: Callable[[datetime], None]) -> None:
    slurm(daemon, reservations=True)
    collect(AT + timedelta(days=9))
    answer_with(daemon, [reservation()], [job(1, 0, 3600, 64)])
    collect(AT)
    assert charged() == [("phys", 64 * 3600.0, 7200.0)]


def test_an_answer_without_a_list_deletes_no_reservation() -> None:
    with pytest.raises(Unavailable):
        read_reservations({"reservations": None})


def test_reservations_need_the_jobs_that_are_over(daemon: Daemon) -> None:
    with pytest.raises(Invalid) as caught:
        slurm(daemon, reservations=True, accounting=False)
    assert [field.where for field in caught.value.fields] == ["collecting.reservations"]


@pytest.mark.parametrize(
    "changed",
    [
        {"accounts": ""},
        {"accounts": "phys,chem"},
        {"accounts": "-phys"},
        {"flags": ["MAINT", "SPEC_NODES"]},
        {"tres": None},
        {"tres": "cpu=x"},
        {"end_time": seconds(START)},
        {"start_time": {"set": False, "infinite": True, "number": 0}},
        {"name": "a\nb"},
    ],
)
def test_a_reservation_without_one_account_or_a_fixed_part_is_not_charged(changed: dict[str, Any]) -> None:
    assert len(read_reservations({"reservations": [reservation()]})) == 1
    assert read_reservations({"reservations": [reservation(**changed)]}) == []
