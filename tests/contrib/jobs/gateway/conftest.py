from __future__ import annotations

from typing import Any

import pytest

from apps.priorities.serving import store
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

POLICY = "policies/grid/sam"


class Gateway:
    """A scheduler's side of the gateway: its token, and the steps of a job."""

    def __init__(self, site: Site, policy: str = "grid") -> None:
        self.site, self.path = site, f"policies/{policy}/sam"
        self.admin = Caller(user=site.admin)
        self.caller = Caller(token=site.token("schedulers", days=200))

    def set(self, **rules: Any) -> dict[str, Any]:
        answer = self.admin.put(self.path, rules)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def post(self, step: str, job: str, **more: Any) -> Any:
        return self.caller.post(f"{self.path}/{step}", {"job": job, **more})

    def step(self, step: str, job: str, **more: Any) -> dict[str, Any]:
        answer = self.post(step, job, **more)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def received(self) -> dict[str, float]:
        ledger = self.caller.get(self.path).json()["ledger"]
        return {name: each["after"] for name, each in ledger["groups"].items()}


@pytest.fixture
def gateway(computed_site: Site) -> Gateway:
    store.poll()
    return Gateway(computed_site)
