"""A worker reads and places what its first recompute needs before it takes messages."""

from __future__ import annotations

import logging

import pytest

from apps.mapping.rules import placement
from apps.priorities.recompute import pipeline, staleness
from fairshare_web.celery import load_ahead
from tests.priority_site import AS_OF, Site

pytestmark = pytest.mark.django_db


def _refuse(*_given: object, **_named: object) -> None:
    raise ValueError("not again")


def test_the_first_recompute_of_a_worker_places_no_account(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(placement, "_placements", placement._PlacementCache())
    assert staleness.load_ahead(at=AS_OF) >= 1
    monkeypatch.setattr(placement, "place_columns", _refuse)
    assert site.recompute().n_ranked > 0
    monkeypatch.setattr(pipeline, "load_inputs", _refuse)
    with caplog.at_level(logging.WARNING):
        load_ahead()
    assert "can't be loaded ahead" in caplog.text, "the worker starts all the same"
