"""Usage sources while daemons of a real Slurm are down: reported, nothing vanishes, the next collection works."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record, Source
from apps.usage.services import NewSource, make_source
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.source_settings import validate_terms
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.fixture
def source(slurm: SlurmSite, settings: Any) -> Source:
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(slurm.bin / name) for name in ("sacct", "squeue")]
    return make_source(NewSource(slug=CLUSTER, name=CLUSTER, cluster=""), at=now(), actor=COMMAND)


def collect(source: Source, command: str) -> Run:
    source.refresh_from_db()
    source.kind, source.collect_every_s = Source.Kind.COMMAND, 300
    given = {"command": command.split(), "look_back_s": 3600, "overlap_s": 600}
    source.collecting = validate_terms(source.kind, given, time_zone="")
    source.save()
    return work_run_now(enqueue_collection(source, at=now()).pk)


@pytest.mark.deep
def test_an_unavailable_controller_makes_no_job_vanish_and_is_retried(slurm: SlurmSite, source: Source) -> None:
    slurm.load(TREE)
    assert collect(source, "squeue --json").state == "succeeded"  # nothing waits yet
    jobs = [slurm.submit(user, "hep", "--hold") for user in ("ann", "bob")]
    collect(source, "squeue --json")
    assert set(Record.objects.values_list("job", "state")) == {(job, "pending") for job in jobs}

    slurm.stop("slurmctld")
    failed = collect(source, "squeue --json")
    source.refresh_from_db()
    # 22.05 ends with status 0 and an empty list, later releases with 1.
    reason = "Unable to contact slurm controller" if slurm.release.root else "can't be reached"
    assert reason in f"{failed.error} {source.collect_error}"
    assert set(Record.objects.values_list("job", "state")) == {(job, "pending") for job in jobs}
    assert source.collect_due_at is not None

    slurm.start("slurmctld")
    assert collect(source, "squeue --json").state == "succeeded"
    source.refresh_from_db()
    assert source.collect_error == ""


@pytest.mark.deep
def test_empty_accounting_is_not_a_failure_but_a_lost_database_is(slurm: SlurmSite, source: Source) -> None:
    found_nothing = collect(source, "sacct -a -X --json --state=TIMEOUT -S {from} -E {to}")
    assert found_nothing.state == "succeeded", found_nothing.error
    slurm.stop("slurmdbd")
    failed = collect(source, "sacct -a -X --json -S {from} -E {to}")
    source.refresh_from_db()
    assert "Problem talking to the database" in f"{failed.error} {source.collect_error}"
    slurm.start("slurmdbd")
    assert collect(source, "sacct -a -X --json -S {from} -E {to}").state == "succeeded"
