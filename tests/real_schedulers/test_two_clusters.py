"""Two clusters of one slurmdbd: each source has the jobs of its own, and the set-up reads the tree of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.slurmrestd_outputs import read_site_by_rest
from apps.core import clock
from apps.policies.formats.registry import get_format, read_file
from apps.priorities.slurm_outputs import split_outputs
from apps.runs.services import work_run_now
from apps.usage.models import Record
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from apps.usage.sources.slurmrestd import Slurmrestd
from tests.real_schedulers.enclosure import HOME
from tests.real_schedulers.slurm_site import CLUSTER, REST_DOOR, REST_SOCKET, SlurmSite, running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db, pytest.mark.deep, pytest.mark.timeout(600)]
OTHER = "c2"


@pytest.fixture
def site(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), release=release) as slurm:
        slurm.add_tree({"hep": (10, {"ann": 5})})
        slurm.submit("ann", "hep")
        slurm.wait_for_jobs()
        yield slurm


def become(slurm: SlurmSite, cluster: str) -> None:
    """Controller and slurmrestd go on as those of another cluster, with jobs from number 1."""
    (slurm.folder / cluster).mkdir()
    slurm.stop("slurmd")
    slurm.configure(ClusterName=cluster, StateSaveLocation=f"{HOME}/{cluster}", SlurmdSpoolDir=f"{HOME}/{cluster}-%n")
    slurm.start("slurmd")
    slurm.sacctmgr("add", "account", "bio", f"cluster={cluster}", "fairshare=7")
    slurm.sacctmgr("add", "user", "bob", "account=bio", f"cluster={cluster}")
    slurm.stop("slurmrestd")
    (slurm.folder / REST_SOCKET).unlink(missing_ok=True)
    slurm.start("slurmrestd")


def collected(slurm: SlurmSite, name: str) -> set[tuple[str, str, str]]:
    """Cluster, number and user of each stored job, after a collection from slurmrestd."""
    address = f"unix:{slurm.folder / REST_DOOR}"
    new = {"name": name, "kind": "slurm-rest", "collecting": {"address": address}, "skew_tolerance_s": 86_400}
    source = set_up_source(slug=name, new_settings=new, at=clock.now(), actor=COMMAND)
    run = work_run_now(enqueue_collection(source, at=clock.now()).pk)
    assert run.state == "succeeded", run.error
    stored = Record.objects.filter(source=source, state="finished")
    return set(stored.values_list("cluster", "job", "account__user_name"))


def tree_of(slurm: SlurmSite) -> set[str]:
    address = f"unix:{slurm.folder / REST_DOOR}"
    outputs = read_site_by_rest(Slurmrestd(address, "any", "", 60.0, clock.now))
    return set(read_file(get_format("sacctmgr"), split_outputs(outputs.text).dump.encode()).tree.name)


def test_each_of_two_clusters_is_read_by_itself(site: SlurmSite, settings: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"unix:{site.folder / REST_DOOR}"]
    assert collected(site, "first") == {(CLUSTER, "1", "ann")}
    become(site, OTHER)
    site.submit("bob", "bio")
    site.wait_for_jobs()
    assert collected(site, "second") == {(OTHER, "1", "bob")}
    of_other = tree_of(site)
    assert {"bio", "bob"} <= of_other
    assert of_other.isdisjoint({"hep", "ann"})
    listed = site.run("sacct", "--allusers", "-X", "--allclusters", "-n", "-P", "-o", "Cluster,JobIDRaw,User")
    assert {f"{CLUSTER}|1|ann", f"{OTHER}|1|bob"} == set(listed.split()), "the database has both"
