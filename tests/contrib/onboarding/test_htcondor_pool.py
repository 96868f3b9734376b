"""A pool of HTCondor from its configuration and history to a policy, with its scheduler in shadow mode."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.files.base import ContentFile

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.first_policy_draft import (
    LogFile,
    confirm_log,
    get_first_policy_draft,
    proposed_settings,
    read_tree,
    send_log,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.contrib.onboarding.tree_vs_usage import compare_with_log
from apps.contrib.schedulers.models import Scheduler
from apps.core import clock
from apps.core.errors import Invalid
from apps.mapping.membership_plan import apply_membership_rules
from apps.mapping.rules.rule_set import load_rules
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now

pytestmark = pytest.mark.django_db
READ_AT = datetime.fromisoformat("2026-11-30T00:00:00Z")
POOL = """\
GROUP_NAMES = group_physics, group_physics.hep, group_chem
GROUP_QUOTA_DYNAMIC_group_physics = 0.6
GROUP_QUOTA_DYNAMIC_group_physics.hep = 0.5
GROUP_QUOTA_DYNAMIC_group_chem = 0.4
PRIORITY_HALFLIFE = 43200
"""
UTC = ZoneInfo("UTC")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", READ_AT.isoformat())


def read_pool(configuration: str = POOL) -> FirstPolicyDraft:
    return read_tree(content=configuration.encode(), file_name="pool.txt", format="auto", at=clock.now(), actor=COMMAND)


def begin(log: Path) -> FirstPolicyDraft:
    """Configuration and history, imported."""
    file = LogFile(ContentFile(log.read_bytes()), log.name, "auto", "pool", "")
    sent = send_log(file, version=read_pool().version, at=clock.now(), actor=COMMAND)
    assert sent.dry_run is not None
    work_run_now(sent.dry_run.run_id)
    confirmed = confirm_log(version=sent.version, at=clock.now(), actor=COMMAND)
    assert confirmed.usage_import is not None
    work_run_now(confirmed.usage_import.run_id)
    ready = get_first_policy_draft(actor=COMMAND)
    assert ready is not None
    return ready


@pytest.mark.parametrize("name", ["history", "history.long", "history.json", "history.xml"])
def test_users_count_in_the_groups_that_htcondor_charges(golden_dir: Path, name: str) -> None:
    """5 s × 2 cores in group_physics.hep, 30 s in group_chem; jobs without a group have no entry."""
    beginning = begin(golden_dir / "htcondor/samples" / name)
    settings = proposed_settings(beginning)
    assert settings.window["half_life_s"] == 43_200
    against = compare_with_log(beginning, zone=UTC, settings=settings, at=clock.now(), actor=COMMAND)
    used = {against.tree.path(top.entry): top.used_s for top in against.ledger.top}
    assert used == pytest.approx({"/group_physics": 10, "/group_chem": 30})
    assert {each.names.user_name for each in against.unplaced} == {"u3", "u4", "u5"}


def test_the_pool_is_connected_in_shadow_mode_and_its_users_become_entries(golden_dir: Path) -> None:
    beginning = begin(golden_dir / "htcondor/samples/history.long")
    wanted = FirstPolicy(slug="pool", name="Pool", reason="As HTCondor has it", scheduler="pool")
    made = publish_first_policy(version=beginning.version, wanted=wanted, at=clock.now(), actor=COMMAND)
    scheduler = made.scheduler
    assert scheduler is not None
    assert (scheduler.kind, scheduler.knob, scheduler.mode) == ("htcondor", "priority_factor", "shadow")
    rules = {(rule.kind, rule.group_pattern) for rule in load_rules(made.policy)}
    assert rules == {("each", "group_physics"), ("each", "group_physics.hep"), ("each", "group_chem")}
    apply_membership_rules(at=clock.now())
    made.policy.refresh_from_db()
    tree = load_tree(made.policy)
    assert {tree.path(i) for i in range(1, len(tree))} == {
        *("/group_physics", "/group_physics/hep", "/group_physics/hep/u1", "/group_chem", "/group_chem/u2")
    }


@pytest.mark.parametrize("value", ["", "0", "-5", "soon", "1000000000000", "$(NOWHERE)"])
def test_a_half_life_that_is_none_leaves_the_default(value: str) -> None:
    default = PolicySettings().window["half_life_s"]
    beginning = read_pool(POOL.replace("= 43200", f"= {value}"))
    assert proposed_settings(beginning).window["half_life_s"] == default


def test_a_tree_of_no_scheduler_connects_none() -> None:
    begun = read_tree(content=b"path,shares\n/a,1\n", file_name="t.csv", format="csv", at=clock.now(), actor=COMMAND)
    wanted = FirstPolicy(slug="pool", name="Pool", reason="Try", scheduler="pool")
    with pytest.raises(Invalid, match="only with its own tree"):
        publish_first_policy(version=begun.version, wanted=wanted, at=clock.now(), actor=COMMAND)
    assert not Scheduler.objects.exists()
