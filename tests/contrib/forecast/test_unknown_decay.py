"""A forecast of a policy with a decay function that this version lacks names the function."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.priorities.serving import store
from tests import priority_site
from tests.priorities.recompute import test_unknown_decay
from tests.priorities.recompute.test_unknown_decay import NAMED
from tests.priority_site import Site

_clock, make_site, site = priority_site._clock, priority_site.make_site, priority_site.site
left = test_unknown_decay.left


@pytest.mark.django_db
def test_a_user_and_a_reader_of_the_policy_get_no_forecast(left: Site, client: Client, admin_user: User) -> None:
    store.poll()
    client.force_login(User.objects.create_user("alice", "alice@example.org", "a long pass phrase"))
    assert NAMED in client.get("/api/v1/me/forecast").content.decode()
    client.force_login(admin_user)
    assert NAMED in client.get("/api/v1/policies/grid/forecast?account=alice").content.decode()
