"""Unknown query parameters are refused by every operation: a typing error would be ignored otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from apps.web.middleware.lookup import PARAMETERS
from tests.rest_site import Caller
from tests.small_site import Site
from tests.web.rest.test_body_limits import described, filled


def names(operation: dict[str, Any]) -> set[str]:
    return {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}


def test_every_operation_refuses_an_unknown_query_parameter(computed: Site) -> None:
    callers = [Caller(user=computed.admin), Caller(token=computed.token("priorities:read", "admin"))]
    found, n_asked = [], 0
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            for caller in callers:
                where = filled(path, operation)
                answer = caller._send(method, f"{where}?acount=alice", None, "application/json", {})
                n_asked += 1
                if answer.json()["code"] not in ("unknown_field", "session_only"):
                    found.append((method, where, answer.status_code))
    assert found == []
    assert n_asked > 250


@pytest.mark.deep
def test_a_method_that_a_route_lacks_is_refused_as_such(computed: Site) -> None:
    caller = Caller(user=computed.admin)
    for path, methods in described()["paths"].items():
        where = filled(path, next(iter(methods.values())))
        for method in ("get", "post", "put", "patch", "delete"):
            if method not in methods:
                answer = caller._send(method, f"{where}?acount=alice", None, "application/json", {})
                assert answer.status_code in (401, 403, 405), (method, where, answer.status_code)


def test_look_ups_take_the_parameters_that_are_described() -> None:
    for suffix, known in PARAMETERS.items():
        (operation,) = described()["paths"][f"/api/v1/policies/{{policy}}/priorities{suffix}"].values()
        assert names(operation) - {"bom"} == set(known)
