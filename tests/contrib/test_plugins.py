"""Plug-ins: their slots, and the checks that name what is missing or claimed twice."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from django.apps import apps
from django.conf import settings
from django.test import override_settings

from apps.contrib.schedulers.apps import SchedulersConfig
from apps.contrib.search.apps import SearchConfig
from apps.core.plugin_checks import check_claimed_entries, check_required_plugins
from apps.core.plugins import Addition, keyed, plugins, with_additions


def test_installed_plugins_miss_nothing_and_claim_nothing_twice() -> None:
    assert check_required_plugins(None) == check_claimed_entries(None) == []


def test_a_required_plugin_that_is_not_installed_is_named() -> None:
    rest = [name for name in settings.INSTALLED_APPS if name != "apps.contrib.jobs"]
    with override_settings(INSTALLED_APPS=rest):
        [error] = check_required_plugins(None)
    assert error.msg == "apps.contrib.schedulers requires apps.contrib.jobs, which is not installed."
    assert apps.is_installed("apps.contrib.jobs")


def test_two_plugins_that_claim_one_entry_are_both_named() -> None:
    kinds = keyed("notice_kinds")
    with patch.object(SearchConfig, "notice_kinds", lambda _self: kinds):
        [error] = check_claimed_entries(None)
    assert "apps.contrib.schedulers and apps.contrib.search both declare 'agent_silent' in notice_kinds" in error.msg


def test_of_two_entries_with_one_key_the_first_stays() -> None:
    with patch.object(SearchConfig, "notice_kinds", lambda _self: {"agent_silent": "another"}):
        assert keyed("notice_kinds")["agent_silent"] != "another"


def test_additions_follow_the_rows_that_they_name_in_their_own_order() -> None:
    added = {"x": Addition(1, after="a"), "y": Addition(2, after="a"), "z": Addition(3, after="y"), "w": Addition(4)}
    with patch("apps.core.plugins.keyed", lambda _slot: added):
        assert list(with_additions({"a": 0, "b": 0}, "audit_topics")) == ["a", "x", "y", "z", "b", "w"]


def test_additions_whose_row_is_not_installed_come_last() -> None:
    with patch("apps.core.plugins.keyed", lambda _slot: {"x": Addition(1, after="gone"), "y": Addition(2, after="x")}):
        assert list(with_additions({"a": 0, "b": 0}, "audit_topics")) == ["a", "b", "x", "y"]


@pytest.mark.parametrize("plugin", list(plugins()), ids=lambda plugin: plugin.label)
def test_every_plugin_says_what_it_is(plugin: SchedulersConfig) -> None:
    assert type(plugin).__doc__
