"""The whole assembly against a slow twin that walks dictionaries; and bit-identical for any order of rows."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.engine.algorithms import read_algorithm
from apps.mapping.rules.rule import Rule
from apps.policies.files.document import read_document
from apps.policies.settings import PolicySettings
from apps.priorities.metering import SourceRow
from apps.priorities.recompute.fingerprint import Fingerprint
from apps.priorities.recompute.pipeline import Inputs, compute, computed_parts, pack_result
from apps.priorities.snapshot_values import unpack_snapshot
from apps.priorities.usage_factors import JobClassRow
from apps.usage.arrays import OpenRecords, UsageArrays
from tests.examples import examples

HOUR = 3600
AS_OF = datetime(2026, 11, 20, 12, 20, tzinfo=UTC)
AS_OF_S = AS_OF.timestamp()
ALGORITHMS = ("aequus", "gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious", "flux")
RESOURCES = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing")
CLASSES = {1: JobClassRow(1, "", "", ""), 2: JobClassRow(2, "batch", "", "debug"), 3: JobClassRow(3, "gpu", "a100", "")}
SOURCES = (SourceRow(1, "here", ""), SourceRow(2, "also-here", ""), SourceRow(3, "peer", "elsewhere"))
KNOWN_UNTIL_S = {
    1: math.inf,
    2: math.inf,
    3: AS_OF_S - 5_000,
}  # by source, up to when its jobs are known to have gone on
SITES = ("fast", "slow")  # codes 1 and 2; 0 is any other
_OPEN_NUMBERS = ("start_epoch", "cpus", "gpus", "mem_gb", "nodes", "billing", "requested_s")
GROUPS, USERS = ("physics", "biology", "empty"), ("alice", "bob", "carol")
ACCOUNTS = [AccountKey("c", user, group) for group in (*GROUPS, "strangers") for user in (*USERS, "guest")]


@dataclass(frozen=True)
class Case:
    """What the twin and the assembly both get."""

    root: dict[str, Any]
    settings: dict[str, Any]
    buckets: list[dict[str, Any]]
    opened: list[dict[str, Any]]


def _inputs(case: Case) -> Inputs:
    tree = read_document({"policy": "p", "root": case.root}).tree
    rule = Rule(kind="glob", target_uid=tree.uuid(0), suffix="/{group}/{user}")
    policy_settings = PolicySettings.from_json(case.settings)

    def ints(name: str, rows: list[dict[str, Any]]) -> Any:
        return np.array([row[name] for row in rows], dtype=np.int64)

    def floats(name: str, rows: list[dict[str, Any]]) -> Any:
        return np.array([row[name] for row in rows], dtype=np.float64)

    return Inputs(
        policy_pk=1,
        fingerprint=Fingerprint("p", 1, 1, {"here": 1}, policy_settings.to_json(), "1", AS_OF),
        settings=policy_settings,
        tree=tree,
        rules=(rule,),
        sources=SOURCES,
        classes=CLASSES,
        account_ids=np.arange(1, len(ACCOUNTS) + 1, dtype=np.int64),
        account_keys=AccountKeys.of(ACCOUNTS),
        usage=UsageArrays(
            account_id=ints("account_id", case.buckets),
            source_id=ints("source_id", case.buckets),
            job_class_id=ints("job_class_id", case.buckets),
            hour_epoch=ints("hour_epoch", case.buckets),
            **{name: floats(name, case.buckets) for name in RESOURCES},
            site_code=ints("site", case.buckets),
            sites=SITES,
        ),
        opened=OpenRecords(
            account_id=ints("account_id", case.opened),
            source_id=ints("source_id", case.opened),
            job_class_id=ints("job_class_id", case.opened),
            is_running=np.array([row["is_running"] for row in case.opened], dtype=np.bool_),
            **{name: floats(name, case.opened) for name in _OPEN_NUMBERS},
            site_code=ints("site", case.opened),
            sites=SITES,
            known_until_epoch=np.array([KNOWN_UNTIL_S[row["source_id"]] for row in case.opened], dtype=np.float64),
        ),
    )


def _weight(hour_s: float, window: dict[str, Any]) -> float:
    if hour_s >= AS_OF_S:
        return 0.0
    age = max(0.0, AS_OF_S - (hour_s + HOUR))
    if window["length_s"] is not None and age >= window["length_s"]:
        return 0.0
    if window["aging"] == "exponential":
        return float(2.0 ** (-age / window["half_life_s"]))
    if window["aging"] == "linear":
        return float(1.0 - age / window["length_s"])
    if window["aging"] == "step":
        return float(window["factor"] ** math.floor(age / window["granularity_s"]))
    if window["aging"] == "slurm":
        return float((1.0 - 0.693 / window["half_life_s"]) ** age)
    if window["aging"] in ("pbs", "flux"):
        passed = _instants(window, min(AS_OF_S, hour_s + HOUR))
        if window["aging"] == "flux":
            return 0.5**passed if passed < window["periods"] else 0.0
        return float(window["decay_factor"] ** passed)
    return 1.0


def _instants(window: dict[str, Any], used_s: float) -> int:
    """How often all usage was decayed from `used_s` to now, one instant after the other."""
    period = window["decay_time_s" if window["aging"] == "pbs" else "half_life_s"]
    instant, passed = math.ceil(used_s / period) * period, 0
    while instant <= AS_OF_S:
        instant, passed = instant + period, passed + 1
    return passed


def _class_factor(class_id: int, factors: list[dict[str, Any]]) -> float:
    product = 1.0
    for given_factor in factors:
        row = CLASSES[class_id]
        names = ("queue", "partition", "qos")
        if all(given_factor[name] == "" or given_factor[name] == getattr(row, name) for name in names):
            product *= given_factor["factor"]
    return product


def _site_factor(code: int, factors: list[dict[str, Any]]) -> float:
    of_site = {given["site"]: given["factor"] for given in factors}
    return float(of_site.get(SITES[code - 1], 1.0)) if code else 1.0


def _counted(case: Case, policy: PolicySettings, approach: str) -> dict[tuple[int, int], float]:
    """(account, source) → usage under one approach."""
    used: dict[tuple[int, int], float] = defaultdict(float)
    weights, window = policy.metric["weights"], policy.window
    for row in case.buckets:
        amount = sum(weights.get(name, 0.0) * row[name] for name in RESOURCES)
        amount *= _class_factor(int(row["job_class_id"]), policy.metric["class_factors"])
        amount *= _site_factor(row["site"], policy.metric["site_factors"])
        used[int(row["account_id"]), int(row["source_id"])] += amount * _weight(row["hour_epoch"], window)
    if approach == "historical":
        return used
    names = dict(zip(RESOURCES, ("cpus", "gpus", "mem_gb", "nodes", "billing"), strict=True))
    for row in case.opened:
        until_s = min(AS_OF_S, KNOWN_UNTIL_S[row["source_id"]])
        if not row["is_running"] or row["start_epoch"] >= until_s:
            continue
        rate = sum(weights.get(name, 0.0) * row[names[name]] for name in RESOURCES)
        rate *= _class_factor(row["job_class_id"], policy.metric["class_factors"])
        rate *= _site_factor(row["site"], policy.metric["site_factors"])
        cell = row["account_id"], row["source_id"]
        hour = row["start_epoch"] // HOUR * HOUR
        while hour < until_s:
            seconds = min(until_s, hour + HOUR) - max(row["start_epoch"], hour)
            used[cell] += rate * seconds * _weight(hour, window)
            hour += HOUR
        if approach == "predictive" and not math.isnan(row["requested_s"]):
            used[cell] += rate * max(0.0, row["requested_s"] - (until_s - row["start_epoch"]))
    return used


def _own(case: Case, policy: PolicySettings, scope: str, narrowed: tuple[str, ...]) -> dict[str, float]:
    """Path → usage of the accounts that belong there, as one scope counts it."""
    paths = _paths(case.root)
    own: dict[str, float] = defaultdict(float)
    for (account, source), amount in _counted(case, policy, policy.approach[scope]).items():
        row = SOURCES[source - 1]
        if (scope == "local" and row.origin) or (narrowed and row.slug not in narrowed):
            continue
        key = ACCOUNTS[account - 1]
        path = f"/{key.group_name}/{key.user_name}"
        if path in paths:
            own[path] += amount
        elif f"/{key.group_name}" in paths:
            own[f"/{key.group_name}"] += amount
    return own


def _paths(entry: dict[str, Any], above: str = "") -> dict[str, dict[str, Any]]:
    found = {}
    for child in entry.get("children", ()):
        path = f"{above}/{child['name']}"
        found[path] = child
        found.update(_paths(child, path))
    return found


def _oracle(case: Case) -> dict[str, tuple[float, float, float]]:
    """Path → (target, actual, priority) by the relative operator."""
    policy = PolicySettings.from_json(case.settings)
    found: dict[str, tuple[float, float, float]] = {}

    def total(path: str, own: dict[str, float], paths: dict[str, dict[str, Any]]) -> float:
        below = [one for one in paths if one.startswith(path + "/")]
        return own.get(path, 0.0) + sum(own.get(one, 0.0) for one in below)

    def walk(entry: dict[str, Any], above: str, scope: str, narrowed: tuple[str, ...]) -> None:
        if entry.get("scope"):
            scope, narrowed = entry["scope"], tuple(entry.get("sources", ()))
        own = _own(case, policy, scope, narrowed)
        paths = _paths(case.root)
        group = [f"{above}/{child['name']}" for child in entry.get("children", ())]
        shares = {path: paths[path]["shares"] for path in group}
        used = {path: total(path, own, paths) for path in group}
        for path in group:
            t = shares[path] / sum(shares.values()) if sum(shares.values()) else 0.0
            s = used[path] / sum(used.values()) if sum(used.values()) else 0.0
            balanced = abs(t - s) <= 1e-12 * max(t, s)
            found[path] = t, s, 0.0 if balanced else (t - s) / max(t, s)
            walk(paths[path], path, scope, narrowed)

    walk(case.root, "", "local", ())
    return found


_shares = st.integers(0, 20)
_amount = st.integers(0, 5_000_000).map(lambda n: n / 1024)
_account = st.integers(1, len(ACCOUNTS))
_scope: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"scope": "local"},
        {"scope": "global"},
        {"scope": "global", "sources": ["peer", "here"]},
        {"scope": "local", "sources": ["also-here"]},
    ]
)


@st.composite
def _roots(draw: st.DrawFn) -> dict[str, Any]:
    groups = []
    for name in draw(st.lists(st.sampled_from(GROUPS), min_size=1, unique=True)):
        users = draw(st.lists(st.sampled_from(USERS), unique=True))
        members = [{"name": user, "kind": "user", "shares": draw(_shares)} for user in users]
        groups.append({"name": name, "shares": draw(_shares), "children": members, **draw(_scope)})
    if draw(st.booleans()):
        groups.append({"name": "spare", "kind": "reserve", "shares": draw(_shares)})
    return {"name": "p", "shares": 1, "children": groups, **draw(_scope)}


_buckets = st.fixed_dictionaries(
    {
        "account_id": _account,
        "source_id": st.integers(1, 3),
        "job_class_id": st.integers(1, 3),
        "site": st.integers(0, 2),
        "hour_epoch": st.integers(-200, 2).map(lambda hours: AS_OF_S // HOUR * HOUR + hours * HOUR),
        **dict.fromkeys(RESOURCES, _amount),
    }
)
_opened = st.builds(
    lambda running, ago_s, **rest: {
        **rest,
        "is_running": running,
        "start_epoch": AS_OF_S - ago_s if running else math.nan,
    },
    running=st.booleans(),
    ago_s=st.integers(-4_000, 400_000),
    account_id=_account,
    source_id=st.integers(1, 3),
    job_class_id=st.integers(1, 3),
    site=st.integers(0, 2),
    cpus=st.integers(0, 64),
    gpus=st.integers(0, 4),
    mem_gb=st.integers(0, 64),
    nodes=st.integers(0, 3),
    billing=st.integers(0, 3),
    requested_s=st.one_of(st.just(math.nan), st.integers(0, 500_000)),
)
_policy_settings = st.fixed_dictionaries(
    {
        "window": st.sampled_from(
            [
                {"length_s": None, "aging": "none"},
                {"length_s": 90_000, "aging": "none"},
                {"length_s": 400_000, "aging": "exponential", "half_life_s": 50_000},
                {"length_s": 400_000, "aging": "linear"},
                {"length_s": None, "aging": "step", "granularity_s": 7_200, "factor": 0.5},
                {"length_s": None, "aging": "slurm", "half_life_s": 50_000},
                {"length_s": 400_000, "aging": "pbs", "decay_time_s": 21_600, "decay_factor": 0.75},
                {"length_s": None, "aging": "flux", "half_life_s": 43_200, "periods": 4},
            ]
        ),
        "metric": st.sampled_from(
            [
                {"weights": {"cpu_s": 1.0}},
                {"weights": {"cpu_s": 1.0, "gpu_s": 16.0, "mem_gb_s": 0.25}},
                {
                    "weights": {"billing": 2.0, "node_s": 0.5},
                    "class_factors": [
                        {"queue": "", "partition": "", "qos": "debug", "factor": 0.5},
                        {"queue": "batch", "partition": "", "qos": "", "factor": 3},
                        {"queue": "gpu", "partition": "a100", "qos": "", "factor": 0},
                    ],
                },
                {
                    "weights": {"cpu_s": 1.0},
                    "class_factors": [{"queue": "batch", "factor": 2}, {"qos": "debug", "factor": 0.5}],
                    "site_factors": [{"site": "slow", "factor": 0.5}, {"site": "fast", "factor": 1.25}],
                },
                {"weights": {"gpu_s": 1.0, "cpu_s": 0}, "site_factors": [{"site": "slow", "factor": 0}]},
            ]
        ),
        "approach": st.fixed_dictionaries(
            dict.fromkeys(("local", "global"), st.sampled_from(["historical", "active", "predictive"]))
        ),
    }
)
_cases = st.builds(
    Case,
    root=_roots(),
    settings=_policy_settings,
    buckets=st.lists(_buckets, max_size=30),
    opened=st.lists(_opened, max_size=6),
)


@examples(150)
@given(_cases)
def test_the_recompute_agrees_with_its_oracle(case: Case) -> None:
    inputs = _inputs(case)
    result = compute(inputs).result
    for path, (target, actual, priority) in _oracle(case).items():
        at = inputs.tree.index_of_path(path)
        assert at is not None
        assert result.target[at] == pytest.approx(target, rel=1e-12, abs=1e-15)
        assert result.actual[at] == pytest.approx(actual, rel=1e-9, abs=1e-12)
        assert result.priority[at] == pytest.approx(priority, rel=1e-6, abs=1e-9)


@examples(150)
@given(_cases, st.sampled_from(sorted(ALGORITHMS)))
def test_a_stored_snapshot_is_read_as_it_was_computed_to_the_last_bit(case: Case, algorithm: str) -> None:
    inputs = _inputs(case)
    inputs = replace(inputs, settings=replace(inputs.settings, algorithm=read_algorithm(algorithm)))
    computed = compute(inputs)
    values, _places, _meta = computed_parts(inputs, computed)
    read, meta = unpack_snapshot(*pack_result(inputs, computed), inputs.tree)
    assert "derived" in meta
    columns = dict(values.columns)
    for name in (field.name for field in fields(values) if field.name != "columns"):
        assert getattr(read, name).tobytes() == getattr(values, name).tobytes(), name
    assert set(read.columns) == set(columns)
    for name, column in read.columns.items():
        assert column.values.tobytes() == columns[name].values.tobytes(), name
        masks = [None if mask is None else mask.tolist() for mask in (column.exists, columns[name].exists)]
        assert masks[0] == masks[1], name


@examples(60)
@given(_cases, st.randoms(use_true_random=False))
@pytest.mark.fault("F8")
def test_the_snapshot_is_bit_identical_for_any_row_order(case: Case, random: Any) -> None:
    shuffled = replace(case, buckets=random.sample(case.buckets, len(case.buckets)))
    shuffled = replace(shuffled, opened=random.sample(case.opened, len(case.opened)))
    packed = [pack_result(inputs, compute(inputs)) for inputs in map(_pinned, (case, case, shuffled))]
    assert packed[0] == packed[1] == packed[2]


def _pinned(case: Case) -> Inputs:
    """A document without uids gets new ones each time it is read: pin them."""
    inputs = _inputs(case)
    uid = np.zeros((len(inputs.tree), 16), dtype=np.uint8)
    uid[:, 15] = np.arange(1, len(inputs.tree) + 1)
    tree = replace(inputs.tree, uid=uid)
    rule = replace(inputs.rules[0], target_uid=UUID(bytes=uid[0].tobytes()))
    return replace(inputs, tree=tree, rules=(rule,))


def test_usage_outside_the_window_and_after_the_instant_does_not_count() -> None:
    hour = AS_OF_S // HOUR * HOUR  # the bucket that contains the instant
    root = {
        "name": "p",
        "children": [
            {
                "name": "physics",
                "shares": 1,
                "children": [{"name": user, "kind": "user", "shares": 1} for user in ("alice", "bob")],
            }
        ],
    }

    def used(hours: list[int]) -> list[float]:
        buckets = [
            {
                "account_id": 1,
                "source_id": 1,
                "job_class_id": 1,
                "site": 0,
                "hour_epoch": hour + at * HOUR,
                **dict.fromkeys(RESOURCES, 0.0),
                "cpu_s": 100.0,
            }
            for at in hours
        ]
        case = Case(root, {"window": {"length_s": 7_200, "aging": "none"}}, buckets, [])
        inputs = _inputs(case)
        at = inputs.tree.index_of_path("/physics/alice")
        assert at is not None
        return [float(compute(inputs).result.usage[at])]

    # as_of is 20 minutes into its hour: ages are 0, 20 min, 80 min, 140 min.
    assert used([0]) == used([-1]) == used([-2]) == [100.0]
    assert used([-3]) == used([1]) == [0.0]


def test_a_reserve_never_gets_accounts_and_unknown_ones_stay_unmapped() -> None:
    root = {
        "name": "p",
        "children": [
            {
                "name": "physics",
                "shares": 1,
                "children": [
                    {"name": "alice", "kind": "reserve", "shares": 1},
                    {"name": "bob", "kind": "user", "shares": 1},
                ],
            }
        ],
    }
    buckets = [
        {
            "account_id": at,
            "source_id": 1,
            "job_class_id": 1,
            "site": 0,
            "hour_epoch": AS_OF_S // HOUR * HOUR - 7200,
            **dict.fromkeys(RESOURCES, 0.0),
            "cpu_s": 50.0,
        }
        for at, key in enumerate(ACCOUNTS, start=1)
        if key.user_name == "alice"
    ]
    inputs = _inputs(Case(root, {"window": {"length_s": None, "aging": "none"}}, buckets, []))
    computed = compute(inputs)
    physics, reserve = (inputs.tree.index_of_path(path) for path in ("/physics", "/physics/alice"))
    assert computed.result.usage[physics] == 50.0
    assert computed.result.usage[reserve] == 0.0
    unplaced = [
        ACCOUNTS[at].group_name
        for at in np.flatnonzero((computed.entry_of_account == -1) & (computed.usage_of_account > 0)).tolist()
    ]
    assert sorted(unplaced) == ["biology", "empty", "strangers"]
