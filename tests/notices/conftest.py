from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.priorities.serving import store
from apps.runs.models import Run
from tests.api.small_site import Site
from tests.worlds import AT, forget_process


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
