"""The set-up, the import of a tree and REST propose the same settings from the same outputs of Slurm."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.onboarding.first_policy_draft import proposed_settings, read_tree, use_source
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from apps.policies.settings import PolicySettings
from apps.usage.models import Record, Source
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PARTS = ("algorithm", "window", "metric", "approach")
WEIGHTS = {"cpu": "CPU=1.0,Mem=0.25G", "gpu": "CPU=0.5,GRES/gpu=8.5"}
CONFIG = """\
ClusterName             = nasty
PriorityType            = priority/multifactor
PriorityDecayHalfLife   = 02:00:00
PriorityCalcPeriod      = 00:01:00
AccountingStorageEnforce = associations,limits,qos
PartitionName=cpu
   TRESBillingWeights=CPU=1.0,Mem=0.25G
PartitionName=gpu
   TRESBillingWeights=CPU=0.5,GRES/gpu=8.5
"""
QOS = "Name|UsageFactor\nnormal|1.000000\nlow|0.500000\nhigh|2.000000\nfree|0.000000\n"
DUMPED_QOS = (
    "QOS - 'free':UsageFactor=0.000000\nQOS - 'high':UsageFactor=2.000000\nQOS - 'low':UsageFactor=0.500000\n"
    "QOS - 'normal':Description='Normal QOS default'\n"
)
DUMP = """\
Cluster - 'nasty':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'phys':Description='phys':Organization='phys':Fairshare=60
Parent - 'phys'
User - 'ann':DefaultAccount='phys':Fairshare=1
"""
SACCT = """\
JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES
1|nasty|ann|phys|cpu|low|1795000000|1795000000|1795000100|100|COMPLETED|1|billing=1,cpu=1,mem=2000M,node=1
2|nasty|ann|phys|gpu|high|1795000000|1795000000|1795000100|100|COMPLETED|1|billing=9,cpu=1,gres/gpu=1,mem=2000M,node=1
"""
NOW = datetime.fromisoformat("2026-11-20T12:00:00Z")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", NOW.isoformat())


def run(*arguments: object) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def parts(settings: PolicySettings) -> dict[str, Any]:
    return {part: getattr(settings, part) for part in PARTS}


def expected() -> dict[str, Any]:
    factors = [("free", 0.0), ("high", 2.0), ("low", 0.5)]
    metric = {
        "weights": {"billing": 1.0},
        "class_factors": [{"queue": "", "partition": "", "qos": name, "factor": factor} for name, factor in factors],
    }
    window = {"aging": "slurm", "length_s": None, "half_life_s": 7200, "calc_period_s": 60}
    approach = {"local": "active", "global": "active"}
    given = {"algorithm": {"name": "slurm-fair-tree"}, "metric": metric, "window": window, "approach": approach}
    return parts(PolicySettings.from_json(given))


@pytest.mark.parametrize(("dump", "config"), [(DUMP, CONFIG + QOS), (DUMPED_QOS + DUMP, CONFIG)])
def test_all_propose_what_slurm_charges(dump: str, config: str, tmp_path: Path, client: Client) -> None:
    together = read_tree(content=(config + dump).encode(), file_name="x", format="auto", at=NOW, actor=COMMAND)
    assert parts(proposed_settings(together)) == expected()
    apart = read_tree(
        content=dump.encode(), slurm_config=config.encode(), file_name="x", format="auto", at=NOW, actor=COMMAND
    )
    assert parts(proposed_settings(apart)) == expected()
    (tmp_path / "accounts.cfg").write_text(dump)
    (tmp_path / "slurm.txt").write_text(config)
    asked = ("--policy", "nasty", "--format", "sacctmgr", "--make", "--publish", "--reason", "x")
    _out, err = run("import_policy", tmp_path / "accounts.cfg", *asked, "--slurm-config", tmp_path / "slurm.txt")
    (unknown,) = [line for line in err.splitlines() if line.startswith("!")]
    assert unknown.startswith("! BOOT_TIME=?: Periods start at")
    revision = get_revision(policy=Policy.objects.get(slug="nasty"))
    assert parts(PolicySettings.from_json(revision.settings)) == expected()
    sign_in(client, User.objects.create_superuser("eva"))
    text = {"text": (DUMPED_QOS if dump != DUMP else "") + config}
    answer = client.post("/api/v1/slurm-config", text, content_type="application/json").json()
    assert parts(PolicySettings.from_json(answer["settings"])) == expected()
    assert answer["billing_weights"] == {"partitions": WEIGHTS, "flag": ""}


def test_a_dump_with_qos_alone_gives_their_factors() -> None:
    begun = read_tree(content=(DUMPED_QOS + DUMP).encode(), file_name="x", format="auto", at=NOW, actor=COMMAND)
    settings = proposed_settings(begun)
    assert settings.metric["class_factors"] == expected()["metric"]["class_factors"]
    assert settings.approach == expected()["approach"]


def test_a_log_is_imported_with_exact_billing_and_corrected_when_the_weights_come_later(tmp_path: Path) -> None:
    log, config = tmp_path / "sacct.txt", tmp_path / "slurm.txt"
    log.write_text(SACCT)
    config.write_text(CONFIG)
    out, err = run("import_usage", "--source", "nasty", log)
    assert out.startswith("2 new")
    assert err.splitlines()[-1].startswith("1 × Billing that Slurm’s records cut to a whole number")
    assert billing() == [1.0, 9.0]
    out, err = run("import_usage", "--source", "nasty", log, "--slurm-config", config)
    assert out.startswith("0 new, 1 duplicate, 1 corrected")
    assert "cut" not in err
    assert billing() == [1.48828125, 9.0]
    assert run("import_usage", "--source", "nasty", log)[0].startswith("0 new, 2 duplicate, 0 corrected")
    assert billing() == [1.48828125, 9.0]


def billing() -> list[float]:
    return list(Record.objects.order_by("job").values_list("billing", flat=True))


def test_the_setup_keeps_the_weights_for_the_source_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    run("import_usage", "--source", "nasty", tmp_path / "sacct.txt")
    begun = read_tree(content=(CONFIG + QOS + DUMP).encode(), file_name="x", format="auto", at=NOW, actor=COMMAND)
    begun = use_source(version=begun.version, source_slug="nasty", at=NOW, actor=COMMAND)
    assert Source.objects.get(slug="nasty").billing_weights == {"partitions": WEIGHTS, "flag": ""}
    wanted = FirstPolicy(slug="nasty", name="nasty", reason="x")
    made = publish_first_policy(version=begun.version, wanted=wanted, at=clock.now(), actor=COMMAND)
    assert parts(PolicySettings.from_json(get_revision(policy=made.policy).settings)) == expected()
