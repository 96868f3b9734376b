"""Algorithms and operators by REST: what can be set, setting any of them, and answers that carry their own numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client

from apps.engine.algorithms import all_algorithms
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

JSON = "application/json"


@pytest.fixture
def admin(computed: Site) -> Client:
    client = Client()
    client.force_login(computed.admin)
    return client


def loads(answer: Any, status: int = 200) -> Any:
    """Strictly: what JSON doesn't have is no number."""
    assert answer.status_code == status, answer.content
    return json.loads(answer.content, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))


def body_of(operations: Sequence[Any]) -> dict[str, Any]:
    return {"base_revision": 2, "reason": "as our scheduler", "operations": operations}


def set_algorithm(client: Client, **algorithm: Any) -> Any:
    operation = {"op": "set_policy", "settings": {"algorithm": algorithm}}
    draft = loads(client.post("/api/v1/policies/grid/changesets", body_of([operation]), content_type=JSON), 201)
    return client.post(f"/api/v1/policies/grid/changesets/{draft['id']}/publish", {}, content_type=JSON)


def test_the_algorithm_registry_is_returned(admin: Client) -> None:
    answer = loads(admin.get("/api/v1/algorithms"))
    assert answer["next"] is None
    found = {one["name"]: one for one in answer["results"]}
    assert list(found) == list(all_algorithms())
    for name, algorithm in all_algorithms().items():
        one = found[name]
        assert (one["label"], one["formula"], one["reference"]) == (
            algorithm.label,
            algorithm.formula,
            algorithm.reference,
        )
        assert (one["fields"], one["takes_inherit"], one["package"]) == (
            list(algorithm.fields),
            algorithm.takes_inherit,
            None,
        )
        assert [parameter["name"] for parameter in one["parameters"]] == [p.name for p in algorithm.parameters]
    resolution = next(p for p in found["aequus"]["parameters"] if p["name"] == "resolution")
    assert (resolution["default"], resolution["minimum"], resolution["maximum"]) == (10000, 2, 2**31)
    assert isinstance(resolution["minimum"], int), "whole as declared"
    part = next(p for p in found["aequus"]["parameters"] if p["name"] == "k")
    assert part["condition"] == "to the operator 'combined'"
    assert found["slurm-classic"]["properties"]["isolation"] is False
    assert found["aequus"]["properties"]["isolation"] is True
    assert found["flux"]["takes_inherit"] is False


def test_operators_have_their_properties(admin: Client) -> None:
    answer = {one["name"]: one for one in loads(admin.get("/api/v1/operators"))["results"]}
    assert {"absolute", "relative", "relative-2", "sigmoid", "slurm", "combined"} <= set(answer)
    assert answer["absolute"]["properties"]["proportional_redistribution"] is False
    assert answer["relative-3"]["parameters"] == {"n": 3.0}
    assert answer["combined"]["range"] == [-1.0, 1.0]


@pytest.mark.parametrize("name", sorted(all_algorithms()))
def test_any_algorithm_is_set_by_a_change_set_and_served(admin: Client, computed: Site, name: str) -> None:
    parameters = {"aequus": {"operator": "absolute"}, "slurm-fair-tree": {"ties": "as-documented"}}.get(name, {})
    if name == "aequus":
        parameters["resolution"] = 50  # type: ignore[assignment]
    loads(set_algorithm(admin, name=name, **parameters))
    computed.recompute()
    answer = loads(admin.get("/api/v1/policies/grid/priorities?account=alice&account=nobody"))
    assert answer["algorithm"]["name"] == name
    assert parameters.items() <= answer["algorithm"].items()
    alice, nobody = answer["results"]
    assert (alice["of"], nobody["error"]) == (3, "unmapped")
    assert alice["rank"] in (1, 2, 3)
    assert alice["key"]
    assert (alice["vector"] is not None) == (name == "aequus")
    loads(admin.get("/api/v1/policies/grid/explain?account=alice"))
    tree = loads(admin.get("/api/v1/policies/grid/tree?depth=3"))
    physics = next(one for one in tree["children"] if one["name"] == "physics")
    own = set(physics["columns"])
    assert own == {"slurm-fair-tree": {"norm_shares", "norm_usage", "effective_usage", "level_fs"}}.get(name, own)


def test_infinity_is_a_string_and_missing_values_are_null(admin: Client, computed: Site) -> None:
    operations = [
        {"op": "add", "parent": "/biology", "name": "dora", "kind": "user", "shares": 1},
        {"op": "add", "parent": "/biology", "name": "robot", "kind": "service", "shares": 1},
        {"op": "set_policy", "settings": {"algorithm": {"name": "slurm-fair-tree"}}},
    ]
    draft = loads(admin.post("/api/v1/policies/grid/changesets", body_of(operations), content_type=JSON), 201)
    loads(admin.post(f"/api/v1/policies/grid/changesets/{draft['id']}/publish", {}, content_type=JSON))
    computed.recompute()
    tree = loads(admin.get("/api/v1/policies/grid/tree?path=/biology&depth=1"))
    found = {one["name"]: one for one in tree["children"]}
    assert found["dora"]["columns"]["level_fs"] == "Infinity"
    assert (found["robot"]["rank"], found["robot"]["factor"]) == (None, None)
    assert (tree["rank"], tree["factor"]) == (None, None)
    robot = loads(admin.get("/api/v1/policies/grid/priorities?account=robot"))["results"][0]
    assert (robot["rank"], robot["key"], robot["factor"]) == (None, None, 0.5)


def test_incompatible_settings_are_refused_with_the_location(admin: Client) -> None:
    wrong = {"op": "set_policy", "settings": {"algorithm": {"name": "slurm-classic", "damping_factor": 0}}}
    answer = admin.post("/api/v1/policies/grid/changesets", body_of([wrong]), content_type=JSON)
    problem = loads(answer, 422)
    assert problem["fields"][0]["where"] == "operations[0].settings.algorithm.damping_factor"
    inherit = [
        {"op": "set_shares", "entry": "/physics/bob", "shares": "parent"},
        {"op": "set_policy", "settings": {"algorithm": {"name": "flux"}}},
    ]
    answer = admin.post("/api/v1/policies/grid/changesets", body_of(inherit), content_type=JSON)
    problem = loads(answer, 422)
    assert (problem["code"], problem["fields"][0]["where"]) == ("no_inherit", "/physics/bob")


def test_the_schema_describes_both_registries(admin: Client) -> None:
    accept = {"accept": "application/vnd.oai.openapi+json"}
    schema = json.loads(admin.get("/api/v1/schema", headers=accept).getvalue())
    for path in ("/api/v1/algorithms", "/api/v1/operators"):
        answer = schema["paths"][path]["get"]["responses"]["200"]["content"][JSON]["schema"]
        assert answer["$ref"].startswith("#/components/schemas/")
