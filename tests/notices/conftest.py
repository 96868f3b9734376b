from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.notices.evaluation import evaluate
from apps.policies.models import Grant
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.usage.models import Source
from tests.api.small_site import Site
from tests.notices.hall import hall
from tests.worlds import AT, forget_process

__all__ = ["hall"]


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    forget_process()
    yield
    forget_process()


@pytest.fixture
def site(small_site: Site) -> Site:
    _work_is_done()
    return small_site


@pytest.fixture
def computed(computed_site: Site) -> Site:
    store.poll()
    _work_is_done()
    return computed_site


def _work_is_done() -> None:
    """What publishing asked for waits in these worlds without workers, which is a notice after a minute."""
    Run.objects.filter(state=Run.State.QUEUED).delete()


@pytest.fixture
def told(computed: Site, settings: Any) -> Site:
    """A late source for the administrator; a role of pia that ends. Both have addresses, ben has no notices."""
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"
    settings.FAIRSHARE_SITE, settings.DEFAULT_FROM_EMAIL = "abisko", "Fairshare <fairshare@example.org>"
    for user in (computed.admin, computed.pia, computed.ben):
        User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.org")
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    Grant.objects.filter(user=computed.pia).update(expires_at=AT + timedelta(days=20))
    evaluate(at=AT)
    return computed
