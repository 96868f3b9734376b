"""Uploaded logs: read packed or not, refused with the first wrong line, and simulated by an experiment's rules."""

from __future__ import annotations

import gzip
from base64 import b64encode
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments import traces
from apps.contrib.lab.experiments.presets import list_presets
from apps.contrib.lab.experiments.records import TraceRow
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.selectors import get_experiment
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments.traces import KIND, list_traces, read_log, remove_trace, upload_trace
from apps.contrib.lab.models import UploadedTrace
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, TooLarge
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from tests.instants import AT
from tests.killed_process import work_until_killed
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def line(number: int, submit_s: float, run_s: float, cpus: int, user: int, group: int = 1) -> str:
    return f"{number} {submit_s} 5 {run_s} {cpus} -1 -1 {cpus} {2 * run_s} -1 1 {user} {group} -1 1 -1 -1 -1"


LOG = "; A log\n" + "\n".join(line(n, 100 * n, 3_000, 1 + n % 2, 1 + n % 3) for n in range(400)) + "\n"
RULES = [{"user": 1, "entry": "/physics/alice"}, {"user": 2, "entry": "/physics/bob"}, {"entry": "/biology/carol"}]


def manager(site: Site) -> Actor:
    return Actor(user=site.admin, via="page")


def uploaded(site: Site, data: bytes = LOG.encode(), name: str = "small.swf") -> UploadedTrace:
    return upload_trace(policy_slug="grid", name=name, data=data, at=AT, actor=manager(site))


def work() -> int:
    return work_due_runs(clock=lambda: AT, of_kinds=[KIND])


def read_by_worker(site: Site, data: bytes = LOG.encode(), name: str = "small.swf") -> UploadedTrace:
    trace = uploaded(site, data, name)
    work()
    return trace


def listed(site: Site) -> list[TraceRow]:
    return list_traces(policy_slug="grid", at=AT, actor=manager(site))


def spec_of(trace: int) -> dict[str, Any]:
    return {"workload": {"kind": "trace", "trace": trace, "sites": [{"name": "R1", "cpus": 30}], "map": RULES}}


def refusal_of_experiment(site: Site, trace: int) -> DomainError:
    with pytest.raises(DomainError) as refusal:
        create_experiment(policy_slug="grid", name="x", spec=spec_of(trace), at=AT, actor=manager(site))
    return refusal.value


def test_a_log_is_simulated_by_the_rules_of_the_experiment(computed: Site) -> None:
    spec = {
        **spec_of(read_by_worker(computed).pk),
        "variants": [{"entries": [{"entry": "/biology", "shares_times": 5}]}],
    }
    experiment = create_experiment(policy_slug="grid", name="log", spec=spec, at=AT, actor=manager(computed))
    work_due_runs(clock=lambda: AT, of_kinds=[PREPARE, VARIANT])
    shown = get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=manager(computed))
    assert (shown.row.state, shown.problem) == ("done", "")
    assert shown.estimate.n_jobs == 400
    base, variant = (row.headline for row in shown.variants)
    assert base is not None
    assert variant is not None
    assert base.n_jobs == 400
    assert base != variant
    assert (shown.history, shown.model_error) == (None, None)


def test_packed_and_plain_are_one_log(computed: Site) -> None:
    assert uploaded(computed).pk == read_by_worker(computed, gzip.compress(LOG.encode())).pk
    assert uploaded(computed).pk == listed(computed)[0].id
    assert Run.objects.filter(kind=KIND).count() == 1
    (row,) = listed(computed)
    assert (row.name, row.n_jobs, row.n_users, row.most_cpus) == ("small.swf", 400, 3, 2)
    assert row.hours == pytest.approx(39_900 / 3600)
    remove_trace(policy_slug="grid", trace_id=row.id, at=AT, actor=manager(computed))
    assert not UploadedTrace.objects.exists()


def test_the_request_counts_a_log_and_a_worker_reads_it(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(traces, "_rows_of", Mock(side_effect=AssertionError("it is read")))
        trace = uploaded(computed)
        with pytest.raises(Invalid, match="no jobs"):
            uploaded(computed, gzip.compress(b"; nothing\n\n"))
    (row,) = listed(computed)
    assert (row.state, row.n_jobs, row.hours, row.left_out, row.digest) == ("waiting", None, None, None, None)
    refusal = refusal_of_experiment(computed, trace.pk)
    assert (type(refusal), refusal.code) == (Conflict, "log_waiting")
    work()
    (row,) = listed(computed)
    assert (row.state, row.n_jobs, row.left_out, row.problem) == ("read", 400, (), "")


def test_by_rest_what_is_not_read_yet_is_null(computed: Site, client: Client) -> None:
    path = "/api/v1/policies/grid/experiments/traces"
    headers = {"authorization": f"Bearer {computed.token('policies:read', 'policies:write')}"}
    sent = {"name": "small.swf", "gzip": b64encode(gzip.compress(LOG.encode())).decode()}
    answer = client.post(path, sent, content_type="application/json", headers=headers)
    assert answer.status_code == 201
    assert answer.json().items() >= {"state": "waiting", "problem": "", "n_jobs": None, "left_out": None}.items()
    work()
    (row,) = client.get(path, headers=headers).json()["results"]
    assert row.items() >= {"id": answer.json()["id"], "state": "read", "n_jobs": 400, "left_out": []}.items()


def test_a_refused_log_keeps_its_reason_and_none_of_its_bytes(computed: Site) -> None:
    wrong = LOG.encode() + b"402 1 2 three 4\n"
    trace = read_by_worker(computed, wrong)
    (row,) = listed(computed)
    assert (row.state, row.problem_code, row.n_jobs) == ("refused", "bad_log", None)
    assert "The log has a wrong line 402: a job" in row.problem
    trace.refresh_from_db()
    assert (bytes(trace.data), trace.digest) == (b"", "")
    refusal = refusal_of_experiment(computed, trace.pk)
    assert (type(refusal), refusal.code) == (Invalid, "log_refused")
    assert "line 402" in refusal.message
    assert uploaded(computed, wrong).pk == trace.pk
    assert [row.state for row in listed(computed)] == ["waiting"]


def test_a_log_that_no_run_reads_any_more_says_so_and_is_read_when_it_comes_again(computed: Site) -> None:
    trace = uploaded(computed)
    Run.objects.filter(kind=KIND).update(state="failed", error_code="worker_lost", error="Its worker was lost.")
    (row,) = listed(computed)
    assert (row.state, row.problem_code) == ("refused", "worker_lost")
    assert "upload it again. Its worker was lost." in row.problem
    assert read_by_worker(computed).pk == trace.pk
    assert listed(computed)[0].state == "read"


def test_a_log_of_before_counts_as_read_and_is_not_stored_twice(computed: Site) -> None:
    jobs, left_out = read_log(LOG.encode())
    data, digest = jobs.pack()
    summary = traces.summary_of(jobs, left_out)
    policy = Policy.objects.get(slug="grid")
    old = UploadedTrace.objects.create(
        policy=policy, name="old.swf", data=data, digest=digest, summary=summary, owner_name="a", created_at=AT
    )
    with connection.cursor() as cursor:  # as the migration fills the new columns
        cursor.execute("UPDATE lab_uploadedtrace SET state = DEFAULT, text_digest = DEFAULT, problem = DEFAULT")
    create_experiment(policy_slug="grid", name="x", spec=spec_of(old.pk), at=AT, actor=manager(computed))
    read_by_worker(computed)
    new, before = listed(computed)
    assert (before.state, before.n_jobs) == ("read", 400)
    assert (new.state, new.problem_code) == ("refused", "known_log")
    assert f"Log {old.pk}, old.swf, has the same jobs" in new.problem


def test_removing_a_log_that_waits_cancels_its_run(computed: Site) -> None:
    trace = uploaded(computed)
    remove_trace(policy_slug="grid", trace_id=trace.pk, at=AT, actor=manager(computed))
    assert work() == 0
    assert Run.objects.get(kind=KIND).state == "cancelled"


def test_removing_a_log_while_it_is_read_ends_the_reading(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uploaded(computed)
    read_rows = traces._rows

    def removed_meanwhile(text: bytes, done: Any) -> Any:
        remove_trace(policy_slug="grid", trace_id=trace.pk, at=AT, actor=manager(computed))
        return read_rows(text, done)

    monkeypatch.setattr(traces, "_rows", removed_meanwhile)
    assert work() == 1
    assert Run.objects.get(kind=KIND).state == "cancelled"
    assert not UploadedTrace.objects.exists()


def test_stored_bytes_that_were_changed_are_refused(computed: Site) -> None:
    uploaded(computed)
    UploadedTrace.objects.update(data=LOG.replace("3000", "3001", 1).encode())
    work()
    assert listed(computed)[0].problem_code == "damaged"


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", ["before_log", "after_log"])
@pytest.mark.parametrize("wrong", ["", "402 wrong\n"])
def test_a_killed_worker_leaves_a_log_waiting_or_ended(computed_site: Site, place: str, wrong: str) -> None:
    trace = upload_trace(
        policy_slug="grid", name="log", data=(LOG + wrong).encode(), at=clock.now(), actor=manager(computed_site)
    )
    work_until_killed(lambda: work_due_runs(clock=clock.now, of_kinds=[KIND]), fault=f"lab.{place}:kill")
    expected = "refused" if wrong else "read"
    assert listed(computed_site)[0].state == ("waiting" if place == "before_log" else expected)
    work_due_runs(clock=clock.now, of_kinds=[KIND])
    assert listed(computed_site)[0].state == expected
    trace.refresh_from_db()
    assert bool(trace.data) == bool(trace.digest) == (not wrong)


def test_jobs_that_never_ran_are_counted() -> None:
    more = [line(900, 10, -1, 1, 1), line(901, 11, 60, 0, 1), line(902, -1, 60, 1, 1)]
    jobs, left_out = read_log((LOG + "\n".join(more)).encode())
    assert len(jobs.at_s) == 400
    assert {reason: n for reason, (n, _core_h) in left_out.items()} == {
        "no_submit_time": 1, "no_run_time": 1, "no_cpus": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "refusal", "message"),
    [
        (LOG.encode() + b"402 1 2 three 4\n", Invalid, "wrong line 402"),
        (LOG.encode() + line(1, 1, 60, 1, 1).replace("60", "nan").encode(), Invalid, "wrong line 402"),
        (LOG.encode() + b"402 1 2\n", Invalid, "wrong line 402"),
        (
            LOG.encode() + line(1, 1, 60, 1, 1).replace(" 1 -1", " 1.2 -1").encode(),
            Invalid,
            "line 402: .* whole numbers",
        ),
        (b"\x1f\x8b" + b"rubbish", Invalid, "damaged"),
        (gzip.compress(LOG.encode())[:-20], Invalid, "ends in the middle"),
        (b"; nothing\n", Invalid, "no jobs"),
        ("\n".join(line(n, -1, 60, 1, 1) for n in range(3)).encode(), Invalid, "no submit times"),
        ("\n".join(line(n, 7, 60, 1, 1) for n in range(3)).encode(), Invalid, "no submit times"),
        (b"%PDF-1.4\n\x00\xff\xfe", Invalid, "wrong line 1"),
    ],
)
def test_a_wrong_log_is_refused_with_its_first_wrong_line(
    data: bytes, refusal: type[DomainError], message: str
) -> None:
    with pytest.raises(refusal, match=message):
        read_log(data)


def test_a_log_that_would_not_end_is_refused_while_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_UNPACKED_BYTES", 2 * 1024**2)
    with pytest.raises(TooLarge, match="when it is unpacked"):
        read_log(gzip.compress(b"; " + b"0" * 64 * 1024**2))
    monkeypatch.setattr(traces, "MOST_VARIANT_JOBS", 399)
    with pytest.raises(TooLarge, match="more than 399 jobs"):
        read_log(LOG.encode())
    monkeypatch.setattr(traces, "MOST_TRACE_BYTES", 1_000)
    with pytest.raises(TooLarge, match="pack it by gzip"):
        read_log(LOG.encode())


def test_jobs_are_counted_before_one_of_them_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a log with too many jobs nor its wrong last line costs more than unpacking a part of it."""
    monkeypatch.setattr(traces, "MOST_VARIANT_JOBS", 1_000)
    monkeypatch.setattr(traces, "_rows_of", Mock(side_effect=AssertionError("it is read")))
    comments = "; a comment\n\n" * 2_000
    text = comments + "".join(f"{line(n, n, 60, 1, 1)}\n" for n in range(1_001)) + "wrong\n"
    for data in (text.encode(), gzip.compress(text.encode()), gzip.compress(text.encode()) * 2):
        with pytest.raises(TooLarge, match="more than 1,000 jobs"):
            read_log(data)


def test_a_log_of_many_parts_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _left_out = read_log(LOG.encode())
    monkeypatch.setattr(traces, "_PART_BYTES", 100)
    parts, _left_out = read_log(LOG.encode())
    assert parts.pack() == whole.pack()
    lines = LOG.splitlines()
    lines[300] = "wrong"
    with pytest.raises(Invalid, match="wrong line 301"):
        read_log("\n".join(lines).encode())


def test_rules_that_fit_no_entry_are_refused(computed: Site) -> None:
    workload: dict[str, Any] = {
        "kind": "trace", "trace": read_by_worker(computed).pk, "sites": [{"name": "R1", "cpus": 30}],
        "map": [{"entry": "/nowhere/{user}"}],
    }  # fmt: skip
    with pytest.raises(Invalid) as refusal:
        create_experiment(policy_slug="grid", name="x", spec={"workload": workload}, at=AT, actor=manager(computed))
    assert refusal.value.code == "no_jobs"
    with pytest.raises(Invalid) as refusal:
        create_experiment(
            policy_slug="grid", name="x", spec={"workload": workload | {"trace": 99}}, at=AT, actor=manager(computed)
        )
    assert refusal.value.code == "no_trace"


def test_a_policy_has_a_limited_number_of_logs(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_TRACES", 1)
    uploaded(computed)
    with pytest.raises(Conflict, match="remove one"):
        uploaded(computed, LOG.encode() + line(402, 1, 60, 1, 1).encode())


def test_presets_are_experiments_that_can_be_made(computed: Site) -> None:
    presets = list_presets(policy_slug="grid", entry="/physics", at=AT, actor=manager(computed))
    assert [preset.name for preset in presets] == ["half_life", "project_doubles", "operator"]
    half_life, doubled, operator = (preset.spec for preset in presets)
    assert [each["settings"]["window"]["half_life_s"] for each in half_life["variants"]] == [14 * 86_400]
    assert len(doubled["variants"]) == 3
    assert [each["settings"]["algorithm"]["operator"] for each in operator["variants"]] == [
        "absolute", "sigmoid", "combined", "slurm",
    ]  # fmt: skip
    for preset in presets:
        with pytest.raises(Invalid) as refusal:  # the small site's jobs have no submit times
            create_experiment(policy_slug="grid", name=preset.title, spec=preset.spec, at=AT, actor=manager(computed))
        assert refusal.value.code in ("no_submit_times", "no_jobs")
    without = list_presets(policy_slug="grid", at=AT, actor=manager(computed))
    assert [preset.name for preset in without] == ["half_life", "operator"]
    with pytest.raises(Invalid):
        list_presets(policy_slug="grid", entry="/nowhere", at=AT, actor=manager(computed))
