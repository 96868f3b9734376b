"""The base of an experiment: the policy as published, or the tree and settings of a shipped scenario in its place.

A shipped scenario brings its own tree, so that an experiment of a paper runs in every policy and stores none. Its
entries have uids made of their paths, so that equal paths of two scenarios are one entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from apps.contrib.lab.experiments.scenario_titles import title_of_scenario
from apps.contrib.lab.experiments.spec import ExperimentSpec, read_spec
from apps.contrib.lab.scenario_files import SHIPPED
from apps.core.derived_state import in_memory
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.working_tree import columns_of
from apps.series.revision_context import PolicyState

Json = dict[str, Any]
SAM = "sam"  # the dispatch of a scenario whose queues have a front and a back instead of priorities
USUAL_REFRESH_S = 60.0
DERIVED_STATE = (
    in_memory(
        "scenario_spec",
        "scenario_tree",
        "scenario_settings",
        "_read",
        "_shipped",
        holds="shipped scenarios as experiments, trees and settings",
        key="name of the scenario",
        inputs="the file of the scenario, which comes with the release",
        range="each shipped scenario",
        ends="the end of the process",
    ),
)


def tree_of_base(policy: Policy, spec: ExperimentSpec) -> TreeColumns:
    """The tree in which the entries of a request are named."""
    return scenario_tree(spec.scenario) if spec.scenario else load_tree(policy)


def settings_of_base(policy: Policy, revision: int, spec: ExperimentSpec) -> PolicySettings:
    return scenario_settings(spec.scenario) if spec.scenario else settings_of(policy, revision)


def state_of_base(policy: Policy, revision: int, spec: ExperimentSpec) -> PolicyState:
    """What variants are variants of."""
    if spec.scenario:
        return PolicyState(0, scenario_tree(spec.scenario), scenario_settings(spec.scenario), ())
    return PolicyState.of_revision(policy, revision, settings_of(policy, revision))


def queue_of_base(spec: ExperimentSpec) -> Json | None:
    """How the scenario's queue with a front and a back books and serves; None where priorities decide."""
    case = _shipped(spec.scenario) if spec.scenario else {}
    if case.get("dispatch") != SAM:
        return None
    return {"booked_at": case.get("booked_at", "start"), "front": case.get("front", "lifo")}


@cache
def scenario_spec(name: str) -> Json:
    """The experiment that a shipped scenario is: its jobs, its data and its seed. Raises KeyError for an unknown one.

    The base has what is no part of a tree or of its settings, such as late data.
    """
    case = _shipped(name)
    base: Json = {each: case[each] for each in ("noise", "priority_refresh_s", "backfill") if each in case}
    refresh_s = float(case.get("usage", {}).get("global_refresh_s", USUAL_REFRESH_S))
    if refresh_s != USUAL_REFRESH_S:
        base["refresh_s"] = refresh_s
    workload = {"kind": "synthetic", "hours": case["hours"], "sites": case["sites"], "streams": case["workload"]}
    return {"scenario": name, "workload": workload, "base": base, "variants": [], "seed": case.get("seed", 1)}


def compared_spec(names: Sequence[str]) -> Json:
    """The experiment of these scenarios beside each other: the first is the base, and the others differ from it in
    their approaches alone.
    """
    approaches = [{"approach": scenario_settings(name).approach} for name in names[1:]]
    variants = [
        {"name": title_of_scenario(name), "settings": each} for name, each in zip(names[1:], approaches, strict=True)
    ]
    return scenario_spec(names[0]) | {"variants": variants}


@cache
def scenario_tree(name: str) -> TreeColumns:
    return columns_of(_nodes(_shipped(name)["policy"], "", None))


@cache
def scenario_settings(name: str) -> PolicySettings:
    """As the scenario has them; the rest is that of a new policy, without decay."""
    case = _shipped(name)
    usage = case.get("usage", {})
    approach = {each: usage.get(each, "active") for each in ("local", "global")}
    changes = {"window": usage.get("window", {"aging": "none"}), "approach": approach}
    return PolicySettings.from_json(changes | ({"algorithm": case["algorithm"]} if "algorithm" in case else {}))


def shipped_as(spec: ExperimentSpec, index: int, names: tuple[str, ...]) -> str:
    """Which of these shipped scenarios a variant is, whatever its seed; empty for none, because it changes another
    thing. A variant of one scenario may be another one.
    """
    if not spec.scenario:
        return ""
    setup = spec.setup(index)
    for name in names:
        other = _read(name)
        is_same = (
            _shipped(name)["policy"] == _shipped(spec.scenario)["policy"]
            and _shipped(name).get("dispatch") == _shipped(spec.scenario).get("dispatch")
            and _with_paths(spec).workload == other.workload
            and _settings(spec.scenario, setup.settings) == scenario_settings(name).to_json()
            and {**vars(setup), "name": "", "settings": {}} == vars(other.base)
        )
        if is_same:
            return name
    return ""


def _settings(scenario: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    return PolicySettings.from_json(changes, base=scenario_settings(scenario)).to_json()


@cache
def _read(name: str) -> ExperimentSpec:
    return read_spec(scenario_spec(name))


def _with_paths(spec: ExperimentSpec) -> ExperimentSpec:
    """The experiment with the paths of its streams, which are stored as uids."""
    data = spec.to_json()
    tree = scenario_tree(spec.scenario)
    for stream in data["workload"].get("streams", []):
        if not stream["entry"].startswith("/"):
            i = tree.index_of_uid(UUID(stream["entry"]))
            stream["entry"] = stream["entry"] if i is None else tree.path(i)
    return read_spec(data)


def _nodes(entry: Mapping[str, Any], path: str, parent: UUID | None) -> Iterator[Node]:
    uid = uuid5(NAMESPACE_URL, f"fairshare:scenario{path}")
    children = entry.get("children", [])
    shares = entry.get("shares", 1.0)
    yield Node(
        uid=uid,
        parent_uid=parent,
        name=entry["name"],
        kind="group" if children else "user",
        shares=None if shares == "parent" else float(shares),
        is_group=bool(children),
        scope=entry.get("scope", ""),
    )
    for child in children:
        yield from _nodes(child, f"{path}/{child['name']}", uid)


@cache
def _shipped(name: str) -> Json:
    case: Json = json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    return case
