"""A source of kind slurm-rest at a real slurmrestd: its socket, its newest parser, its jobs, its tree and shares."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.slurmrestd_outputs import read_site_by_rest
from apps.core import clock
from apps.policies.formats.registry import get_format, read_file
from apps.policies.publishing.direct import tree_of_document
from apps.priorities.slurm_outputs import split_outputs
from apps.runs.services import work_run_now
from apps.usage.models import Record
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from apps.usage.sources.slurmrestd import PARSERS, Slurmrestd, parser_of
from tests.real_schedulers.slurm_site import REST_DOOR, SlurmSite

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db]


@pytest.mark.deep
def test_a_real_slurmrestd_is_read_by_its_socket_with_its_newest_parser(slurm: SlurmSite, settings: Any) -> None:
    slurm.add_tree({"physics": (30, {"hep": (10, {"ann": 5})}), "bio": (20, {"bob": 1})})
    jobs = [slurm.submit("ann", "hep", cpus=2), slurm.submit("bob", "bio")]
    slurm.wait_for_jobs()
    address = f"unix:{slurm.folder / REST_DOOR}"
    settings.FAIRSHARE_OUTBOUND_ALLOW = [address]
    new = {"name": "Real", "kind": "slurm-rest", "collecting": {"address": address}, "skew_tolerance_s": 86_400}
    source = set_up_source(slug="real", new_settings=new, at=clock.now(), actor=COMMAND)
    run = work_run_now(enqueue_collection(source, at=clock.now()).pk)
    assert run.state == "succeeded", run.error
    source.refresh_from_db()
    newest = next(parser for parser in PARSERS if parser in slurm.release.parsers)
    assert parser_of(source) == newest
    finished = Record.objects.filter(source=source, state="finished")
    assert set(finished.values_list("job", flat=True)) >= {str(job) for job in jobs}
    assert work_run_now(enqueue_collection(source, at=clock.now()).pk).counts["new"] == 0
    outputs = read_site_by_rest(Slurmrestd(address, "real", "", 60.0, clock.now))
    sacctmgr = get_format("sacctmgr")
    tree = tree_of_document(read_file(sacctmgr, split_outputs(outputs.text).dump.encode()), sacctmgr)
    assert {"physics", "hep", "ann", "bio", "bob"} <= set(tree.name)
