"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import POLICY, Row

ROWS = [
    # Operators and resolution (alice sees herself and the way there)
    Row(POLICY + "/operators", "/api/v1/policies/grid/operators", "401 200 200 200 200 200 403 200 200 401 401"),
    Row("policy/<slug:policy>/operators/", "/policy/grid/operators/", "302 200 200 200 200 200 302 302 302 302 302",
        word="/physics/bob", readers="pia admin dora", besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/operators/figures/<slug:figure>", "/policy/grid/operators/figures/leaf-jobs",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora"),
    Row("policy/<slug:policy>/operators/figures/<slug:figure>.<str:form>",
        "/policy/grid/operators/figures/leaf-jobs.csv",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora"),
]  # fmt: skip
