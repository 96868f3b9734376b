"""The address of slurmrestd in First steps: none that is forbidden is asked or stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.onboarding.rest_site import RestSite, begin_by_rest
from apps.core.errors import DomainError
from apps.usage.models import Source
from tests.federation.test_forbidden_addresses import CHOSEN, connects  # noqa: F401 - fixture
from tests.instants import AT

FIELDS = {"contrib.onboarding.pages.forms: address": "begin_by_rest"}


def test_a_private_address_of_slurmrestd_is_not_asked_and_not_stored(
    db: None,
    connects: list[Any],  # noqa: F811
    settings: LazySettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    token = tmp_path / "slurm"
    token.touch(0o600)
    token.write_text("secret\n")
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    person = Actor(user=User.objects.create_user("ada", is_superuser=True), via="page")
    for url in CHOSEN:
        with pytest.raises(DomainError):
            begin_by_rest(RestSite(url, "slurm"), at=AT, actor=person)
    assert connects == []
    assert not Source.objects.exists()
