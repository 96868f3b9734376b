from __future__ import annotations

import pytest

from apps.contrib.lab.comparison import replay, replayed_settings
from tests.priority_site import _clock, make_site  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _few_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replays, recomputed every four hours, of two half-lives besides the policy's own, for speed; what is measured
    is the same.
    """
    monkeypatch.setattr(replay, "STEP_S", 4 * 3_600.0)
    monkeypatch.setattr(replayed_settings, "N_REPLAYS", 2)
    monkeypatch.setattr(replayed_settings, "HALF_LIVES_S", (86_400, 14 * 86_400))
