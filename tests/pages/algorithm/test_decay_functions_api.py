"""REST lists the decay functions with their descriptions."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.engine.decay_functions import DECAY_FUNCTIONS
from apps.policies.settings import PolicySettings
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.mark.django_db
def test_every_decay_function_is_listed_with_valid_parameters(client: Client) -> None:
    client.force_login(User.objects.create_user("reader"))
    listed = client.get("/api/v1/decay-functions").json()["results"]
    assert [function["name"] for function in listed] == list(DECAY_FUNCTIONS)
    for function in listed:
        given = {one["name"]: one["default"] for one in function["parameters"] if one["default"] is not None}
        window = PolicySettings.from_json({"window": {"aging": function["name"], **given}}).window
        assert {name: window[name] for name in given} == given
        assert function["formula"]
        assert all(one["unit"] in ("s", "h", "") and one["label"] and one["allowed"] for one in function["parameters"])
