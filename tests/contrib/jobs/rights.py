"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import API, HTMX, POLICY, Row

JOBS = {"text": '{"algorithm": {"name": "slurm-multifactor"}, "weights": {}, "jobs": [{"id": "1"}]}'}
ROWS = [
    # REST: jobs, of which only the caller says anything
    Row(API + "jobs/explain", "/api/v1/jobs/explain", "401 200 200 200 200 200 200 200 200 401 401", "post",
        {"algorithm": {"name": "sam"}, "shares": {"g": 1}, "jobs": [{"id": "j", "group": "g", "benefit": 1}]}),
    # The first steps: administrators alone (not begun)
    Row("jobs/", "/jobs/?example=case", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("jobs/", "/jobs/", "302 200 200 200 200 200 302 302 302 302 302", "post", JOBS),
    Row("jobs/_result", "/jobs/_result", "302 200 200 200 200 200 302 302 302 302 302", "post", JOBS, headers=HTMX),
    # Pages: which account counts where (pia's rule is the last one; bob's account is attached by her)
    Row("jobs/calculator/_result", "/jobs/calculator/_result?user=ann&waiting=1",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("jobs/calculator/", "/jobs/calculator/", "302 200 200 200 200 200 302 302 302 302 302"),
    # The editor: shares of one group by dragging
    # /physics: who sees sums only is shown no weeks, because a week may be one person's
    Row(POLICY + "/sam-case", "/api/v1/policies/grid/sam-case?path=/physics",
        "401 404 404 200 404 200 200 200 404 401 401", word="bob", readers="pia admin narrow reader"),
    # REST: SAM's gateway (no ledger is open): administrators, and the scope schedulers
    Row(POLICY + "/sam", "/api/v1/policies/grid/sam", "401 404 404 404 404 404 404 404 404 401 401"),
    *(
        Row(f"{POLICY}/sam/{step}", f"/api/v1/policies/grid/sam/{step}",
            "401 403 403 403 403 404 403 403 403 401 401", "post", {"job": "1", **more})
        for step, more in (("decide", {"group": "/physics"}), ("started", {}), ("finished", {}), ("cancelled", {}))
    ),
    Row(POLICY + "/sam", "/api/v1/policies/grid/sam", "401 403 403 403 403 422 403 403 403 401 401", "put",
        {"entry": "/nowhere"}),
    # Schedulers: managers of the whole policy; agents have tokens of their own; the queue by whose numbers one sees
    Row("policy/<slug:policy>/sam/", "/policy/grid/sam/", "302 404 404 404 404 404 302 302 302 302 302"),
]  # fmt: skip
