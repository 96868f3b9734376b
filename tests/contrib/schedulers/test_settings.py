"""Settings of a scheduler, as a command or a page gives them: checked together, changed once, switched on in parts."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import SYSTEM
from apps.accounts.models import AuditEvent
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import tag_of
from apps.contrib.schedulers.queue_table import read_queue
from apps.contrib.schedulers.services import MOST_SCHEDULERS, change_scheduler, connect_scheduler, pause_scheduler
from apps.contrib.schedulers.switch_on import SchedulerScope, switch_on
from apps.core.errors import Conflict, Invalid, Malformed
from tests.contrib.schedulers.reports import QUEUE
from tests.instants import AT
from tests.refusals import refused
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def connect(name: str = "c2", **given: Any) -> Scheduler:
    return connect_scheduler(policy_slug="grid", name=name, settings=given, at=AT, actor=SYSTEM)


def change(**given: Any) -> Scheduler:
    tag = tag_of(Scheduler.objects.get(name="c1"))
    return change_scheduler(name="c1", tag=tag, settings=given, at=AT, actor=SYSTEM)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"kind": "pbs"}, "kind"),
        ({"mode": "loud"}, "mode"),
        ({"knob": "loud"}, "knob"),
        ({"namespace": 5}, "namespace"),
        ({"namespace": "n" * 129}, "namespace"),
        ({"partitions": []}, "partitions"),
        ({"partitions": "batch"}, "partitions"),
        ({"limits": [3]}, "limits"),
        ({"limits": {"calls_per_s": 3.5}}, "limits.calls_per_s"),
        ({"carries": "shares", "mode": "canary", "canary_partition": "b"}, "mode"),
        ({"carries": "shares", "kind": "htcondor"}, "carries"),
        ({"carries": "limits", "kind": "htcondor"}, "carries"),
        ({"kind": "htcondor", "knob": "nice"}, "knob"),
        ({"subtree": 5}, "subtree"),
        ({"every_s": True}, "every_s"),
        ({"typo": 3}, "typo"),
    ],
)
def test_a_wrong_setting_is_refused_at_its_field(site: Site, given: dict[str, Any], where: str) -> None:
    with refused(Invalid, "bad_scheduler", field=where):
        connect(**given)


def test_all_wrong_settings_are_named_at_once(site: Site) -> None:
    with pytest.raises(Invalid) as refusal:
        connect(mode="loud", weight=0, limits={"typo": 3})
    assert {one.where for one in refusal.value.fields} == {"mode", "weight", "limits.typo"}


@pytest.mark.parametrize("name", ["new", "c.2", "-c", "c 2", "c" * 65, ""])
def test_names_fit_into_addresses_and_commands(site: Site, name: str) -> None:
    with refused(Invalid, field="name"):
        connect(name)


def test_a_policy_has_a_limited_number_of_schedulers(connected: Site) -> None:
    for number in range(MOST_SCHEDULERS - 1):
        connect(f"d{number}")
    with refused(Conflict):
        connect("more")


def test_another_kind_begins_with_its_own_knob(connected: Site) -> None:
    assert connect(kind="gridengine").knob == change(kind="gridengine").knob == "override_tickets"
    assert change(kind="htcondor").knob == "priority_factor"
    assert change(kind="slurm", knob="nice").knob == "nice"


def test_a_change_to_the_same_settings_is_none(connected: Site) -> None:
    n_events = AuditEvent.objects.count()
    assert change(mode="on", paused=False).revision == 1
    assert AuditEvent.objects.count() == n_events
    assert [pause_scheduler(name="c1", at=AT, actor=SYSTEM).revision for _twice in range(2)] == [2, 2]


@pytest.mark.parametrize("name", ["paused", "reset_values"])
def test_a_switch_is_true_or_false(connected: Site, name: str) -> None:
    with refused(Invalid, field=name):
        change(**{name: "yes"})
    assert Scheduler.objects.get().revision == 1


@pytest.mark.parametrize(("partition", "canary"), [("batch", ""), ("tiny", "tiny")])
def test_switching_partitions_on_forgets_a_canary_that_is_none_of_them(
    connected: Site, partition: str, canary: str
) -> None:
    scheduler = change(mode="canary", canary_partition="tiny")
    scope = SchedulerScope(partitions=[partition])
    on = switch_on(scope, name="c1", tag=tag_of(scheduler), at=AT, actor=SYSTEM)
    assert (on.mode, on.partitions, on.canary_partition) == ("on", [partition], canary)


@pytest.mark.parametrize(
    ("row", "where"), [({"cpus": "8"}, "cpus"), ({"priority": 2**60}, "priority"), ({"reason": 5}, "reason")]
)
def test_an_agent_of_this_site_reports_by_the_same_rules(row: dict[str, Any], where: str) -> None:
    with refused(Malformed, field=f"queue[1].{where}"):
        read_queue([QUEUE[0], QUEUE[1] | row])
