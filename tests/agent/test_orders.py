"""Orders and look-ups as a server might send them: every field is checked before anything follows from it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agent.orders import BOUNDS, KNOBS, read_orders, value_of
from agent.records import Answer, ServerFailure
from agent.source import parts_of, read_look_up
from tests.agent.fakes import ORDERS
from tests.each_case import each_case


def orders(**changes: Any) -> Any:
    return read_orders(json.loads(json.dumps({**ORDERS, **changes})))


@each_case(
    "change",
    [
        {"kind": "pbs"}, {"knob": "override_tickets"}, {"weight": 0}, {"weight": True}, {"weight": 2**31},
        {"mode": "canary"}, {"step": None}, {"step": 0},
        {"policy": "../x"},
        {"policy": ""}, {"partitions": "batch"}, {"partitions": [1]},
        {"every_s": 0}, {"every_s": "30"}, {"paused": 1}, {"reset_values": None},
        {"subtree": "physics"}, {"namespace": 5},
        {"limits": None}, {"limits": {**ORDERS["limits"], "calls_per_s": 0}}, {"revision": -1}, {"mode": ["on"]},
        {"limits": {**ORDERS["limits"], "unmapped_percent": 101}}, {"weight": 10**400}, {"revision": math.inf},
    ],
)  # fmt: skip
def test_orders_with_an_invalid_field_are_rejected_by_name(change: dict[str, Any]) -> None:
    (field,) = change
    named = {"mode": ("mode", "canary_partition"), "limits": (*ORDERS["limits"], "the document")}.get(field, (field,))
    with pytest.raises(ServerFailure) as caught:
        orders(**change)
    assert any(name in str(caught.value) for name in named)


@pytest.mark.parametrize("line", [math.inf, None, "x"])
def test_a_share_order_with_an_invalid_line_is_rejected(line: Any) -> None:
    wrong = {"line": line, "group": "a", "user": "", "before": "1", "after": "2"}
    with pytest.raises(ServerFailure, match="share_order is wrong"):
        read_orders({**ORDERS, "share_order": {"id": 1, "cluster": "c1", "lines": [wrong]}})


@pytest.mark.parametrize("document", [None, [], "x", 5])
def test_orders_must_be_an_object(document: Any) -> None:
    with pytest.raises(ServerFailure):
        read_orders(document)


@pytest.mark.parametrize(
    ("kind", "knob", "values"),
    [
        ("slurm", "sitefactor", (0, 25000, 100000)),
        ("slurm", "nice", (100000, 75000, 0)),
        ("slurm", "priority", (1, 25001, 100001)),
        ("gridengine", "override_tickets", (0, 25000, 100000)),
        ("gridengine", "priority", (-1023, -511, 1024)),
    ],
)
@pytest.mark.fault("F13")
def test_values_of_factors(kind: str, knob: str, values: tuple[int, int, int]) -> None:
    given = orders(kind=kind, knob=knob)
    assert tuple(value_of(given, factor) for factor in (0.0, 0.25, 1.0)) == values


def test_every_setting_has_bounds_and_other_values_are_rejected() -> None:
    assert set(BOUNDS) == {(kind, knob) for kind, knobs in KNOBS.items() for knob in knobs}
    heaviest = orders(weight=2147483645)
    assert value_of(heaviest, 1.0) == 2147483645
    with pytest.raises(ValueError, match="outside"):
        value_of(heaviest._replace(weight=2147483646), 1.0)


ANN, BOB = ("ann", "physics", "batch"), ("bob", "", "")
GOOD = {"account": "ann", "entry": "/physics/ann", "factor": 0.5}


def test_a_look_up_is_read_in_the_order_of_the_accounts() -> None:
    unmapped = {"account": "bob", "entry": None, "factor": 1, "error": "unmapped"}
    found = read_look_up([ANN, BOB], {"snapshot": 8, "age_s": 1.5, "results": [GOOD, unmapped]})
    assert found.answers == {ANN: Answer("/physics/ann", 0.5, None), BOB: Answer(None, 1.0, "unmapped")}
    assert (found.snapshot, found.age_s) == (8, 1.5)


@each_case(
    "change",
    [
        {"snapshot": None}, {"snapshot": True}, {"age_s": -1}, {"age_s": "5"}, {"age_s": float("nan")}, {"results": []},
        {"results": [{**GOOD, "account": "eve"}]}, {"results": None}, {"results": ["x"]},
        {"results": [{"factor": 0.5}]},
        *({"results": [{**GOOD, "factor": factor}]} for factor in (1.1, -0.1, None, "1", float("inf"), 10**400, True)),
    ],
)  # fmt: skip
def test_an_invalid_look_up_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ServerFailure, match="look-up can't be read"):
        read_look_up([ANN], {"snapshot": 8, "age_s": 1.5, "results": [GOOD], **change})


def test_the_best_of_several_entries_is_used() -> None:
    second = {**GOOD, "entry": "/bio/ann", "factor": 0.1}
    other = {**GOOD, "account": "bob", "entry": "/bob"}
    found = read_look_up([ANN, BOB], {"snapshot": 8, "age_s": 1.5, "results": [GOOD, second, other]})
    assert {account: answer.entry for account, answer in found.answers.items()} == {ANN: "/physics/ann", BOB: "/bob"}


def test_a_user_is_looked_up_once() -> None:
    accounts = [(f"u{n}", group, "batch") for n in range(10_001) for group in ("a", "b", "c")[: 1 + n % 2]]
    parts = parts_of(accounts)
    assert sorted(account for part in parts for account in part) == sorted(accounts)
    assert [len(part) for part in parts] == [10_000, 1, 5_000]
    assert all(len({asked[0] for asked in part}) == len(part) for part in parts)
