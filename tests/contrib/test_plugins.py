"""Plug-ins: their slots, and what happens when one is missing, broken, left out or claims what another one has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.checks import Tags, run_checks
from django.core.management import get_commands
from django.db import connection

from apps.contrib.search.apps import SearchConfig
from apps.core.plugin_checks import check_claimed_entries, check_left_out_plugins
from apps.core.plugins import Addition, PluginConfig, keyed, plugins, with_additions
from tests.conftest import REPOSITORY
from tests.examples import first

_SEARCH = """
import json
import django
django.setup()
from django.core.checks import run_checks
from django.test import Client
answer = Client(headers={"host": "localhost"}).get("/search/")
print(json.dumps([answer.status_code, answer.content.decode(), [message.msg for message in run_checks()]]))
"""

_HELPS = """
import json
import django
django.setup()
from django.core.management import get_commands, load_command_class
ours = {name: app for name, app in get_commands().items() if app.startswith("apps.")}
commands = {name: load_command_class(app, name) for name, app in ours.items()}
print(json.dumps({name: command.create_parser("", name).format_help() for name, command in commands.items()}))
"""


def _python(*arguments: str, path: Path = REPOSITORY, **environ: str) -> subprocess.CompletedProcess[str]:
    everything = {
        **os.environ,
        "PYTHONPATH": f"{path}{os.pathsep}{REPOSITORY}",
        "DJANGO_SETTINGS_MODULE": "fairshare_web.settings",
        **environ,
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=everything, cwd=REPOSITORY)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A folder with a plug-in of another package that can't be imported at all, and one whose models can't."""
    for name in ("fails_at_once", "fails_at_models", "fails_at_urls"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "apps.py").write_text(
            f"from apps.core.plugins import PluginConfig\nclass Config(PluginConfig):\n    name = {name!r}\n"
        )
    (tmp_path / "fails_at_once/apps.py").write_text("import no_such_package")
    (tmp_path / "fails_at_models/models.py").write_text("raise RuntimeError('no table fits')")
    (tmp_path / "fails_at_urls/urls.py").write_text("urlpatterns = [1 / 0]")
    return tmp_path


def test_no_two_plugins_claim_one_entry() -> None:
    assert check_claimed_entries(None) == []


def test_two_plugins_that_claim_one_entry_are_both_named_and_the_first_stays() -> None:
    with patch.object(SearchConfig, "notice_kinds", lambda _self: {"agent_silent": Addition("another")}):
        [error] = check_claimed_entries(None)
        assert keyed("notice_kinds")["agent_silent"].value != "another"
    assert "apps.contrib.schedulers and apps.contrib.search both declare 'agent_silent' in notice_kinds" in error.msg


def test_additions_follow_the_rows_that_they_name_in_their_own_order() -> None:
    added = {"x": Addition(1, after="a"), "y": Addition(2, after="a"), "z": Addition(3, after="y"), "w": Addition(4)}
    with patch("apps.core.plugins.keyed", lambda _slot: added):
        assert list(with_additions({"a": 0, "b": 0}, "audit_topics")) == ["a", "x", "y", "z", "b", "w"]


def test_additions_whose_row_is_not_installed_come_last() -> None:
    with patch("apps.core.plugins.keyed", lambda _slot: {"x": Addition(1, after="gone"), "y": Addition(2, after="x")}):
        assert list(with_additions({"a": 0, "b": 0}, "audit_topics")) == ["a", "b", "x", "y"]


@pytest.mark.parametrize("plugin", list(plugins()), ids=lambda plugin: plugin.label)
def test_every_plugin_says_what_it_is(plugin: PluginConfig) -> None:
    assert type(plugin).__doc__


def test_a_required_plugin_that_is_not_installed_is_named_with_who_requires_it() -> None:
    ended = _python("manage.py", "check", FAIRSHARE_PLUGINS_LEFT_OUT="apps.contrib.jobs")
    assert ended.returncode != 0
    assert "apps.contrib.schedulers requires apps.contrib.jobs, which is not installed" in ended.stderr


def test_a_plugin_that_does_not_exist_cannot_be_left_out() -> None:
    ended = _python("manage.py", "check", FAIRSHARE_PLUGINS_LEFT_OUT="apps.contrib.weather")
    assert ended.stderr.strip() == "FAIRSHARE_PLUGINS_LEFT_OUT: there is no plug-in apps.contrib.weather."


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "error"),
    first(
        1,
        [
            ("fails_at_once", "ModuleNotFoundError: No module named 'no_such_package'"),
            ("fails_at_models", "RuntimeError: no table fits"),
            ("fails_at_urls", "ZeroDivisionError: division by zero"),
        ],
    ),
)
def test_a_plugin_that_fails_when_it_is_imported_is_named_and_the_core_serves(
    broken: Path, name: str, error: str
) -> None:
    ended = _python("-c", _SEARCH, path=broken, FAIRSHARE_PLUGINS=name)
    assert ended.returncode == 0, ended.stderr
    status, _page, messages = json.loads(ended.stdout)
    assert status == 302  # to sign in
    assert messages == [f"The plug-in {name} fails when it is imported and is left out: {error}"]
    assert messages[0] in ended.stderr  # the log


@pytest.mark.deep
def test_a_page_of_a_plugin_that_is_left_out_answers_404_with_a_sentence() -> None:
    ended = _python("-c", _SEARCH, FAIRSHARE_PLUGINS_LEFT_OUT="apps.contrib.search")
    assert ended.returncode == 0, ended.stderr
    status, page, messages = json.loads(ended.stdout)
    assert (status, messages) == (404, [])
    assert "The page doesn’t exist, or you may not see it." in page


@pytest.mark.deep
def test_commands_of_plugins_that_are_left_out_are_gone_with_their_actions() -> None:
    everything, without_first_steps = _helps(), _helps("apps.contrib.onboarding")
    core = _helps(*(plugin.name for plugin in plugins()))
    assert everything.keys() - core.keys() == {
        name for name, app in get_commands().items() if str(app).startswith("apps.contrib.")
    }
    assert everything.keys() - without_first_steps.keys() == {"propose_policy"}
    assert ["setup" in helps["scheduler"] for helps in (everything, without_first_steps)] == [True, False]


def _helps(*left_out: str) -> dict[str, str]:
    """Help of each command of a site that leaves out plug-ins."""
    ended = _python("-c", _HELPS, FAIRSHARE_PLUGINS_LEFT_OUT=",".join(left_out))
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.django_db
def test_rows_of_a_plugin_that_is_left_out_are_named_and_kept() -> None:
    ContentType.objects.create(app_label="weather", model="report")
    ContentType.objects.create(app_label="weather", model="station")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE weather_report AS SELECT generate_series(1, 1200) AS id")
        cursor.execute("CREATE TABLE weather_station (id integer)")
    assert run_checks(tags=[Tags.database]) == []
    [warning] = check_left_out_plugins(apps.get_app_configs(), databases=["default"])
    assert warning.msg == ("weather is not installed, and its tables hold rows: weather_report 1,200. They are kept.")
