"""Lines of the scheduler's configuration that going back needs: where they come from, and when they are forgotten."""

from __future__ import annotations

import os

import pytest

from agent.adapters import gridengine, slurm
from agent.commands import Commands
from agent.former_lines import AGENT, FormerLine, Lines, lines_to_restore, remember
from agent.loop import Agent
from agent.records import Finding
from agent.rest import Rest
from agent.state import open_table
from tests.agent.fakes import CONFIG, TOKEN, Place

SHADOW_AT, ON_AT = "2026-11-20T06:30:00Z", "2026-11-21T06:30:00Z"
FAIR_SHARE = "PriorityWeightFairshare"


def checks(**config: str) -> list[Finding]:
    return slurm.check_config("sitefactor", {**slurm.parse_config(CONFIG), **config})


def seen(*steps: tuple[list[Finding], bool]) -> list[FormerLine]:
    """Lines after these checks, each with whether values were sent."""
    lines: Lines = {}
    for at, (findings, is_sending) in zip((SHADOW_AT, ON_AT, "later"), steps, strict=False):
        lines = remember(lines, findings, at, AGENT, is_sending)
    return lines_to_restore(lines)


def test_every_line_that_was_demanded_is_kept_as_it_was_with_fair_share_first() -> None:
    before = checks(
        PriorityWeightFairShare="100000", PriorityType="priority/basic", PrioritySiteFactorPlugin="site_factor/own"
    )
    lines = seen((before, False), (checks(), True))
    assert [(each.line, each.is_known, each.seen_at) for each in lines] == [
        (f"{FAIR_SHARE}=100000", True, SHADOW_AT),
        ("PrioritySiteFactorPlugin=site_factor/own", True, SHADOW_AT),
        ("PriorityType=priority/basic", True, SHADOW_AT),
    ]
    assert lines[0].demanded == f"{FAIR_SHARE}=0"


def test_a_weight_that_was_0_from_the_first_reading_on_is_not_known() -> None:
    (line,) = seen((checks(), False))
    assert (line.line, line.is_known) == (f"{FAIR_SHARE}=0", False)
    lines = seen((checks(), False), (checks(PriorityWeightFairShare="7000"), False))
    assert [(each.line, each.is_known) for each in lines] == [(f"{FAIR_SHARE}=7000", True)], "seen later, still shadow"


@pytest.mark.parametrize(("is_sending", "weight"), [(True, "100000"), (False, "5")])
def test_a_mistake_while_values_are_sent_replaces_nothing(is_sending: bool, weight: str) -> None:
    before, mistake = checks(PriorityWeightFairShare="100000"), checks(PriorityWeightFairShare="5")
    assert seen((before, False), (mistake, is_sending))[0].line == f"{FAIR_SHARE}={weight}"


def test_a_check_that_is_no_line_of_the_configuration_is_none() -> None:
    right = Finding("operator_right", "error", "The agent runs as slurm: None.", "sacctmgr modify user slurm set …")
    assert seen(([right], False)) == []


def test_a_knob_that_leaves_the_weight_alone_demands_nothing() -> None:
    config = {**slurm.parse_config(CONFIG), "PriorityWeightFairShare": "9"}
    assert seen((slurm.check_config("priority", config), False)) == []


def test_grid_engines_lines_are_kept_too() -> None:
    config = {"weight_ticket": "0.000000", "weight_tickets_share": "500", "weight_tickets_functional": "0"}
    lines = seen((gridengine.check_config("override_tickets", config), False))
    assert {(each.line, each.demanded) for each in lines if each.is_known} == {
        ("weight_ticket 0.000000", "weight_ticket 1.000000"),
        ("weight_tickets_share 500", "weight_tickets_share 0"),
    }


def test_the_command_on_the_host_lists_the_lines_from_before_without_the_site(place: Place) -> None:
    config = place.scheduler.folder / "config.txt"
    config.write_text(CONFIG.replace("PriorityWeightFairShare = 0", "PriorityWeightFairShare = 100000"))
    place.site.order(mode="shadow")
    place.run()
    config.write_text(CONFIG)
    place.site.order(mode="on")
    place.run()
    place.site.statuses = [503] * 10
    done = place.run("reset-values")
    assert (done.returncode, set(place.scheduler.values().values())) == (0, {0})
    assert "  PriorityWeightFairshare=100000  # as the agent's check read it, 20" in done.stdout


def test_the_command_on_the_host_says_what_is_not_known(place: Place) -> None:
    place.run()
    done = place.run("reset-values")
    assert "  PriorityWeightFairshare=0  # not known: so it was already" in done.stdout


def test_after_a_reset_the_agent_looks_until_the_lines_are_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{place.scheduler.folder}:{os.environ['PATH']}")
    config = place.scheduler.folder / "config.txt"
    before = CONFIG.replace("PriorityWeightFairShare = 0", "PriorityWeightFairShare = 100000")
    agent = Agent(Rest(place.site.url, "head", TOKEN), Commands(), open_table(str(place.state)), "head1", print)
    for text, changes in ((before, {"mode": "shadow"}), (CONFIG, {"mode": "on"}), (CONFIG, {"reset_values": True})):
        config.write_text(text)
        place.site.order(**changes)
        agent.run_pass()
    assert [agent.run_pass()["checks"] is not None for _ in range(2)] == [True, True]
    config.write_text(before)
    assert [agent.run_pass()["checks"] is not None for _ in range(2)] == [True, False]


def test_the_room_for_nice_names_the_weight_as_it_is(place: Place) -> None:
    place.scheduler.jobs = {"11": {"user": "ann", "group": "physics", "nice": 999}}
    place.site.order(knob="nice")
    place.run()
    (check,) = [check for check in place.site.reports[-1]["checks"] if check["code"] == "nice_floor"]
    assert check["found"].startswith("PriorityWeightPartition=0: pending jobs with the lowest priority")
    line = place.table()["facts"]["former_lines"]["PriorityWeightPartition"]
    assert (line["line"], line["demanded"]) == ("PriorityWeightPartition=0", "PriorityWeightPartition=100000")
