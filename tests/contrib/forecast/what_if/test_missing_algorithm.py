"""What-if of a policy whose algorithm is no longer installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.forecast.what_if.trial import Scenario, run_scenario
from apps.core.errors import Conflict
from apps.engine.algorithms import get_algorithm
from apps.policies.services import change_settings
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import AccountQuery
from tests.priorities.recompute.test_packages import _settings, computed, moody  # noqa: F401 - fixtures
from tests.priority_site import AS_OF, Site


def test_a_missing_algorithm_is_reported(computed: Site, moody: Callable[[], None]) -> None:  # noqa: F811
    get_algorithm("moody")
    change_settings(policy_slug="grid", settings=_settings()["settings"], reason="x", at=AS_OF, actor=COMMAND)
    computed.recompute()
    moody()
    store.forget()
    with pytest.raises(Conflict) as refused:
        run_scenario(account=AccountQuery("alice"), scenario=Scenario(), at=AS_OF, policy_slug="grid", actor=COMMAND)
    assert refused.value.code == "no_algorithm"
