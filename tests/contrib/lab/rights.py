"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments.traces import upload_trace
from apps.runs.services import work_due_runs
from tests.instants import AT
from tests.rights_world import HTMX, POLICY, Row, World

__all__ = ["MAKERS", "ROWS"]

EXPERIMENTS = POLICY + "/experiments"
EXPERIMENT = EXPERIMENTS + "/<int:experiment>"
LAB = "policy/<slug:policy>/lab/"
PAGE = LAB + "<int:experiment>/"
AT_PAGE = "/policy/grid/lab/{experiment}/"
TYPED = {"kind": "synthetic", "hours": "1", "sites": "R1 2", "load": "1", "n_variants": "0"}
ONLY_ADMIN = "302 403 403 403 403 200 302 302 302 302 302"
ACTS = "302 403 403 403 403 303 302 302 302 302 302"
AT_EXPERIMENT = "/api/v1/policies/grid/experiments/{experiment}"
SPEC = {
    "workload": {
        "kind": "synthetic", "hours": 1, "sites": [{"name": "R1", "cpus": 2}],
        "streams": [{"entry": "/physics/bob", "every_s": 600}],
    },
    "variants": [{"settings": {"window": {"half_life_s": 3600}}}],
}  # fmt: skip
NAME = "two hours of bob"
MADE = SPEC | {"name": NAME}


def _experiment(world: World) -> int:
    """Made by the administrator, and simulated."""
    actor = Actor(user=world.site.admin, via="page")
    made = create_experiment(policy_slug="grid", name=NAME, spec=SPEC, at=AT, actor=actor)
    work_due_runs(clock=lambda: AT, of_kinds=[PREPARE, VARIANT])
    return made.pk


def _trace(world: World) -> int:
    actor = Actor(user=world.site.admin, via="page")
    return upload_trace(policy_slug="grid", name="log", data=LOG.encode(), at=AT, actor=actor).pk


LOG = "1 0 0 60 1 0 0 1 60 0 1 4 1 0 0 0 0 0\n2 9 0 60 1 0 0 1 60 0 1 4 1 0 0 0 0 0\n"
MAKERS = {"experiment": _experiment, "trace": _trace}
ROWS = [
    # Experiments: made by managers of the whole policy, read by those who see all its numbers
    Row(EXPERIMENTS, "/api/v1/policies/grid/experiments", "401 403 403 403 403 200 403 403 403 401 401",
        word="two hours of bob", readers="admin"),
    Row(EXPERIMENTS, "/api/v1/policies/grid/experiments", "401 403 403 403 403 201 403 403 403 401 401", "post", MADE),
    Row(EXPERIMENTS + "/estimate", "/api/v1/policies/grid/experiments/estimate",
        "401 403 403 403 403 200 403 403 403 401 401", "post", SPEC),
    Row(EXPERIMENTS + "/presets", "/api/v1/policies/grid/experiments/presets?entry=/physics",
        "401 403 403 403 403 200 403 403 403 401 401", word="/physics", readers="admin"),
    Row(EXPERIMENTS + "/traces", "/api/v1/policies/grid/experiments/traces",
        "401 403 403 403 403 200 403 403 403 401 401"),
    Row(EXPERIMENTS + "/traces", "/api/v1/policies/grid/experiments/traces",
        "401 403 403 403 403 201 403 403 403 401 401", "post", {"name": "log", "text": LOG}),
    Row(EXPERIMENTS + "/traces/<int:trace>", "/api/v1/policies/grid/experiments/traces/{trace}",
        "401 403 403 403 403 204 403 403 403 401 401", "delete", remakes="trace"),
    Row(EXPERIMENT, AT_EXPERIMENT, "401 403 403 403 403 200 403 403 403 401 401",
        word="two hours of bob", readers="admin"),
    Row(EXPERIMENT + "/cancel", AT_EXPERIMENT + "/cancel", "401 403 403 403 403 200 403 403 403 401 401", "post",
        word="two hours of bob", readers="admin"),
    Row(EXPERIMENT + "/evidence", AT_EXPERIMENT + "/evidence", "401 403 403 403 403 200 403 403 403 401 401", "post",
        {"change_set": None}, word="two hours of bob", readers="admin"),
    Row(EXPERIMENT + "/variants/<int:variant>", AT_EXPERIMENT + "/variants/1",
        "401 403 403 403 403 200 403 403 403 401 401", word="/physics/bob", readers="admin"),
    Row(EXPERIMENT + "/variants/<int:variant>/waits", AT_EXPERIMENT + "/variants/1/waits",
        "401 403 403 403 403 404 403 403 403 401 401"),
    Row(EXPERIMENT + "/history", AT_EXPERIMENT + "/history", "401 403 403 403 403 404 403 403 403 401 401"),
    Row(EXPERIMENT, AT_EXPERIMENT, "401 403 403 403 403 204 403 403 403 401 401", "delete", remakes="experiment"),
    # Advice: measured on all entries, for those who see all numbers
    Row(POLICY + "/advice", "/api/v1/policies/grid/advice", "401 403 403 403 403 200 403 403 403 401 401"),
    Row(POLICY + "/advice", "/api/v1/policies/grid/advice", "401 403 403 403 403 202 403 403 403 401 401", "post"),
    Row("policy/<slug:policy>/_advice", "/policy/grid/_advice", ONLY_ADMIN, headers=HTMX),
    Row("policy/<slug:policy>/advice/", "/policy/grid/advice/", "302 303 303 303 303 303 302 302 302 302 302"),
    Row("policy/<slug:policy>/advice/draft/", "/policy/grid/advice/draft/", ACTS, "post"),
    Row("policy/<slug:policy>/advice/", "/policy/grid/advice/", "302 403 403 403 403 303 302 302 302 302 302", "post"),
    # Pages of experiments
    Row(LAB, "/policy/grid/lab/", ONLY_ADMIN, word="two hours of bob", readers="admin"),
    Row(LAB + "_rows", "/policy/grid/lab/_rows", ONLY_ADMIN, word="two hours of bob", readers="admin", headers=HTMX),
    Row(LAB + "_question/<slug:question>", "/policy/grid/lab/_question/half_life", ONLY_ADMIN, headers=HTMX),
    Row(LAB + "ask/<slug:question>/", "/policy/grid/lab/ask/half_life/",
        "302 403 403 403 403 303 302 302 302 302 302", "post"),
    Row(LAB + "scenarios/", "/policy/grid/lab/scenarios/", ONLY_ADMIN),
    Row(LAB + "new/", "/policy/grid/lab/new/", ONLY_ADMIN),
    Row(LAB + "new/", "/policy/grid/lab/new/?scenario=idle-U-B12", ONLY_ADMIN),
    Row(LAB + "new/", "/policy/grid/lab/new/?from={experiment}", ONLY_ADMIN, word="two hours of bob", readers="admin"),
    Row(LAB + "new/", "/policy/grid/lab/new/", ACTS, "post", {"name": "made by hand", **TYPED}),
    Row(LAB + "new/_estimate", "/policy/grid/lab/new/_estimate", ONLY_ADMIN, "post", TYPED, headers=HTMX),
    Row(LAB + "new/_logs", "/policy/grid/lab/new/_logs", ONLY_ADMIN, headers=HTMX),
    Row(LAB + "new/figures/tree", "/policy/grid/lab/new/figures/tree", ONLY_ADMIN, word="physics", readers="admin"),
    Row(LAB + "new/figures/tree.<str:form>", "/policy/grid/lab/new/figures/tree.csv", ONLY_ADMIN,
        word="physics", readers="admin"),
    Row(PAGE, AT_PAGE, ONLY_ADMIN, word="two hours of bob", readers="admin"),
    Row(PAGE + "_now", AT_PAGE + "_now", ONLY_ADMIN, headers=HTMX),
    Row(PAGE + "figures/<slug:figure>", AT_PAGE + "figures/waits", ONLY_ADMIN, word="physics", readers="admin"),
    Row(PAGE + "figures/<slug:figure>.<str:form>", AT_PAGE + "figures/waits.csv", ONLY_ADMIN,
        word="physics", readers="admin"),
    Row(PAGE + "cancel/", AT_PAGE + "cancel/", ACTS, "post"),
    Row(PAGE + "repeat/", AT_PAGE + "repeat/", ACTS, "post"),
    Row(PAGE + "attach/", AT_PAGE + "attach/", ACTS, "post", {"change_set": ""}),
    Row(PAGE + "draft/<int:variant>/", AT_PAGE + "draft/1/", ACTS, "post"),
    Row(PAGE + "attach/", AT_PAGE + "attach/", ACTS, "post", {"change_set": ""}),
    Row(PAGE + "remove/", AT_PAGE + "remove/", ACTS, "post", remakes="experiment"),
    # Evidence of a review: for those who see the change set, and all numbers
    Row("changes/<int:change_set>/experiments/", "/changes/{change_set}/experiments/",
        "302 404 404 403 404 200 302 302 302 302 302"),
    Row("changes/<int:change_set>/experiments/", "/changes/{change_set}/experiments/",
        "302 404 404 403 404 200 302 302 302 302 302", headers=HTMX),
    # Operators and resolution (alice sees herself and the way there)
    Row(POLICY + "/operators", "/api/v1/policies/grid/operators", "401 200 200 200 200 200 403 200 200 401 401"),
]  # fmt: skip
