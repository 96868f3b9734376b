"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import API, HTMX, POLICY, Row

__all__ = ["ROWS"]

ROWS = [
    # REST: priorities
    Row(POLICY + "/forecast", "/api/v1/policies/grid/forecast?account=bob",
        "401 200 200 200 200 200 200 200 200 401 401", word="/physics/bob", readers="pia admin narrow reader dora"),
    Row(API + "me/forecast", "/api/v1/me/forecast", "401 200 200 200 200 200 403 403 403 401 401",
        word="/physics/alice", readers="alice"),
    # The first steps: administrators alone (not begun)
    Row("me/priority/_forecast", "/me/priority/_forecast?policy=grid&entry={alice}",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX, word="physics", readers="alice"),
    Row("me/priority/_forecast_levels", "/me/priority/_forecast_levels?policy=grid&entry={alice}",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX, word="physics", readers="alice"),
    Row("me/priority/_when", "/me/priority/_when?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX),
    Row("me/priority/_submit", "/me/priority/_submit?policy=grid&entry={alice}&job_core_h=100",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX, word="physics", readers="alice"),
    # Operators and resolution (alice sees herself and the way there)
    Row(API + "me/submit", "/api/v1/me/submit?policy=grid&core_h=100", "401 200 200 200 200 200 403 403 403 401 401",
        word="/physics/alice", readers="alice"),
    # Goals: a day that is over is refused to those who see the entry; others get what doesn't exist
    Row(POLICY + "/goal", "/api/v1/policies/grid/goal?entry={bob}&by=2036-01-01",
        "401 404 404 400 404 400 403 400 404 401 401", besides="dora 400"),
    Row("policy/<slug:policy>/edit/goal/<uuid:uid>/", "/policy/grid/edit/goal/{bob}/",
        "302 404 404 200 404 200 302 302 302 302 302", word="bob", readers="pia admin dora", besides="dora 200"),
    Row("policy/<slug:policy>/edit/goal/<uuid:uid>/", "/policy/grid/edit/goal/{bob}/?by=2001-01-01",
        "302 404 404 422 404 422 302 302 302 302 302", "post", {"by": "2001-01-01", "lever": "shares"},
        besides="dora 422"),
]  # fmt: skip
