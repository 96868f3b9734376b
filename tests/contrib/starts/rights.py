"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import API, HTMX, POLICY, Row

ROWS = [
    # The record: all who may see an entry of the policy; it names no job and no user
    Row(API + "schedulers/<slug:scheduler>/starts", "/api/v1/schedulers/c1/starts",
        "401 404 200 200 200 200 403 200 200 401 401", besides="vera 200 dora 200"),
    Row("schedulers/<slug:name>/starts/", "/schedulers/c1/starts/", "302 404 200 200 200 200 302 302 302 302 302",
        besides="vera 200 dora 200"),
    # Now: who sees every member's numbers of the level: managers of the whole, leads of a group
    Row(POLICY + "/now", "/api/v1/policies/grid/now", "401 404 403 200 200 200 403 200 200 401 401",
        besides="vera 403 dora 200"),
    Row("policy/<slug:policy>/now/", "/policy/grid/now/", "302 404 403 200 200 200 302 302 302 302 302",
        besides="vera 403 dora 200"),
    Row("policy/<slug:policy>/now/", "/policy/grid/now/?entry={physics}",
        "302 404 403 200 404 200 302 302 302 302 302", besides="vera 403 dora 403"),
    # Planned waits under a draft: for those who see the change set, and all numbers
    Row(POLICY + "/changesets/<int:change_set>/planned-waits",
        "/api/v1/policies/grid/changesets/{change_set}/planned-waits", "401 404 404 403 404 200 403 403 404 401 401"),
    Row("changes/<int:change_set>/planned-waits/", "/changes/{change_set}/planned-waits/",
        "302 404 404 403 404 200 302 302 302 302 302"),
    Row("changes/<int:change_set>/planned-waits/", "/changes/{change_set}/planned-waits/",
        "302 404 404 403 404 200 302 302 302 302 302", headers=HTMX),
]  # fmt: skip
