"""A real Slurm site from its outputs to shadow mode, with our numbers beside its own sshare."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.onboarding.first_policy_draft import (
    LogFile,
    confirm_log,
    get_first_policy_draft,
    proposed_settings,
    read_tree,
    send_log,
    use_source,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.contrib.schedulers.going_back import lines_to_restore
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.own_values import load_values
from apps.core import clock
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.priorities.slurm_outputs import split_outputs
from apps.runs.services import work_run_now
from apps.usage.models import Import
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
READ_AT = datetime.fromisoformat("2026-11-23T07:53:00Z")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", READ_AT.isoformat())  # after the capture


@pytest.fixture
def folder(golden_dir: Path) -> Path:
    return golden_dir / "slurm/charged"


def begin(folder: Path, **changed: bytes) -> FirstPolicyDraft:
    """Tree, configuration, sshare and log, imported."""
    given = {"content": "dump.cfg", "slurm_config": "config.txt", "sshare": "sshare.txt"}
    files = {name: (folder / file).read_bytes() for name, file in given.items()} | changed
    begun = read_tree(**files, file_name="dump.cfg", format="auto", at=clock.now(), actor=COMMAND)
    sent = send_log(
        LogFile(
            file=ContentFile((folder / "sacct.txt").read_bytes()),
            file_name="sacct.txt",
            format="auto",
            source_slug="c1",
            time_zone="",
        ),
        version=begun.version,
        at=clock.now(),
        actor=COMMAND,
    )
    work(sent.dry_run)
    confirmed = confirm_log(version=sent.version, at=clock.now(), actor=COMMAND)
    work(confirmed.usage_import)
    found = get_first_policy_draft(actor=COMMAND)
    assert found is not None
    return found


def work(done: Import | None) -> None:
    assert done is not None
    work_run_now(done.run_id)


def compared(beginning: FirstPolicyDraft) -> SshareComparison:
    found = compare_with_sshare(beginning, at=clock.now(), actor=COMMAND)
    assert found is not None
    return found


def test_factors_and_usage_equal_sshare(folder: Path) -> None:
    found = compared(begin(folder))
    assert (found.algorithm, found.unit) == ("slurm-fair-tree", "billing_s")
    assert (found.factors.n_equal, len(found.factors.differences)) == (8, 8)
    assert found.factors.largest <= 1e-6
    assert (found.usage.differences, found.usage.theirs) == ([], 199)


def test_usage_differences_have_amount_and_reason(folder: Path) -> None:
    """cat of biology: 60 in the log; Slurm lists 12, as where it lost the ends of jobs."""
    sshare = (folder / "sshare.txt").read_bytes().replace(b"biology|cat|1|0.333333|60|", b"biology|cat|1|0.333333|12|")
    config = (folder / "config.txt").read_bytes()
    found = compared(begin(folder, sshare=sshare)).usage
    first = found.rows[0]
    assert (first.user, first.reason) == ("cat", "unexplained")
    assert first.difference == pytest.approx(48, abs=1e-3)
    without_limits = config.replace(b"limits", b"nothing")
    assert without_limits != config
    FirstPolicyDraft.objects.all().delete()
    begun = read_tree(
        content=(folder / "dump.cfg").read_bytes(),
        slurm_config=without_limits,
        sshare=sshare,
        file_name="dump.cfg",
        format="auto",
        at=clock.now(),
        actor=COMMAND,
    )
    begun = use_source(version=begun.version, source_slug="c1", at=clock.now(), actor=COMMAND)
    row = compared(begun).usage.rows[0]
    assert (row.reason, "no_limits" in row.hints) == ("unexplained", True), "12 isn't what Slurm charged until a tick"


def test_the_comparison_updates_with_the_choices_before_publishing(folder: Path, client: Client) -> None:
    begun = begin(folder)
    sign_in(client, User.objects.create_superuser("eva"))
    form = {"version": str(begun.version), "name": "c1", "algorithm": "slurm-fair-tree", "compare": "1"}
    n_different = {}
    for half_life_days in ("0", "0.01"):  # as the site has it, and another one
        page = read(client.post("/setup/publish/", {**form, "half_life_days": half_life_days}))
        assert page.has(f"#id_half_life_days[value='{half_life_days}']")
        n_different[half_life_days] = int(page.values("data-value", "#sshare")[0].split()[2])
    assert n_different["0"] == 0
    assert n_different["0.01"] > 0
    refused = client.post("/setup/publish/", {**form, "algorithm": "aequus", "half_life_days": "0"})
    assert refused.status_code == 422, "no decay is Slurm's alone"
    assert not Policy.objects.exists()


def test_a_slurm_tree_without_configuration_gets_fair_tree(folder: Path) -> None:
    dump = (folder / "dump.cfg").read_bytes()
    begun = read_tree(content=dump, file_name="dump.cfg", format="auto", at=clock.now(), actor=COMMAND)
    settings = proposed_settings(begun)
    assert settings.algorithm["name"] == "slurm-fair-tree"
    assert (settings.window["aging"], settings.window["half_life_s"]) == ("slurm", 7 * 86_400)


def test_the_policy_is_published_and_its_scheduler_is_in_shadow_mode(folder: Path) -> None:
    begun = begin(folder)
    wanted = FirstPolicy(slug="c1", name="c1", reason="As Slurm has it", scheduler="c1")
    made = publish_first_policy(version=begun.version, wanted=wanted, at=clock.now(), actor=COMMAND)
    assert made.scheduler is not None
    assert (made.scheduler.mode, made.scheduler.namespace, made.scheduler.policy) == ("shadow", "c1", made.policy)
    assert len(load_values(made.scheduler.pk)) == 12
    assert get_first_policy_draft(actor=COMMAND) is None


def test_text_that_is_not_sshare_output_is_refused(folder: Path) -> None:
    with pytest.raises(Invalid, match="sshare -a -P -l -m") as refused:
        begin(folder, sshare=b"sacct, perhaps\n")
    assert refused.value.code == "no_sshare"
    assert not FirstPolicyDraft.objects.exists()


def test_one_command_sets_a_site_up_in_shadow_mode(folder: Path, tmp_path: Path) -> None:
    """With the outputs of all commands in one file, in another order than they are listed."""
    outputs = tmp_path / "slurm.txt"
    outputs.write_text("".join((folder / name).read_text() for name in ("sshare.txt", "config.txt", "dump.cfg")))
    given = ("setup", "c1", "--outputs", outputs, "--sacct", folder / "sacct.txt")
    out, err = io.StringIO(), io.StringIO()
    call_command("scheduler", *map(str, given), "--json", "--publish", "--reason", "x", stdout=out, stderr=err)
    found = json.loads(out.getvalue())
    assert (found["users"], found["equal"], found["unknown"]) == (8, 8, 0)
    assert found["usage"]["differences"] == []
    made = Scheduler.objects.get(name="c1")
    assert (made.mode, made.policy.slug) == ("shadow", "c1")
    (line,) = lines_to_restore(made)
    assert (line.line, line.is_known, line.source) == ("PriorityWeightFairshare=100000", True, "setup")


def test_several_outputs_in_one_text_are_separated() -> None:
    text = (
        "Configuration data as of 2026\nPriorityType = priority/basic\nAccount|User|RawShares|FairShare\n"
        "root|||1\n root|root|1|1\nPartitionName=batch\n   MaxTime=1\n\nName|Priority|Flags|UsageFactor\n"
        "low|0||0.5\nCluster - 'demo':Fairshare=1\n"
    )
    found = split_outputs(text)
    assert found.qos == "Name|Priority|Flags|UsageFactor\nlow|0||0.5\n"
    assert found.dump == "Cluster - 'demo':Fairshare=1\n"
    assert found.sshare.splitlines() == ["Account|User|RawShares|FairShare", "root|||1", " root|root|1|1"]
    assert found.config.splitlines()[-2:] == ["PartitionName=batch", "   MaxTime=1"]


def test_a_dump_among_other_outputs_keeps_every_line(golden_dir: Path) -> None:
    dump = (golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg").read_text()
    continued = dump.replace("Parent - 'physics'", "Parent - \\\n 'physics'") + "# not in the policy: remove user\n"
    config = "ClusterName=demo\nInclude other.conf\nPriorityFlags=MAX_TRES, \\\n NO_FAIR_TREE\n"
    for text in (config + continued, continued + config):
        found = split_outputs(text)
        assert (found.dump, found.config) == (continued, config)
