"""FAIRSHARE_CONFIG: one file of settings for the service and its commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.core.code_paths import REPOSITORY
from docsite.settings import read_variables
from fairshare_web.settings_file import forget_services, known_names, read_settings_file, refuse_unknown_names


def read(path: Path, text: str, *, mode: int = 0o600, **environ: str) -> dict[str, str]:
    file = path / "fairshare.conf"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    given = {"FAIRSHARE_CONFIG": str(file), **environ}
    read_settings_file(given)
    return given


def test_the_environment_overrides_the_settings_file(tmp_path: Path) -> None:
    text = '\ufeff# the site\n\nFAIRSHARE_SITE="Nord grid"\nFAIRSHARE_PORT = 9000\nFAIRSHARE_EMAIL_HOST=a=b\n'
    found = read(tmp_path, text, FAIRSHARE_PORT="8001")
    assert (found["FAIRSHARE_SITE"], found["FAIRSHARE_PORT"]) == ("Nord grid", "8001")
    assert found["FAIRSHARE_EMAIL_HOST"] == "a=b"
    secret = read(tmp_path, "SECRET_KEY_FILE=/a", SECRET_KEY="x" * 50)
    assert "SECRET_KEY_FILE" not in secret, "it would win over the environment"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("FAIRSHARE_SITE=a\nFAIRSHARE_PORTS=1\n", 0o600, "line 2: FAIRSHARE_PORTS is no setting.*FAIRSHARE_PORT"),
        ("FAIRSHARE_SITE=a\nFAIRSHARE_SITE=b\n", 0o600, "line 2: FAIRSHARE_SITE is given twice"),
        ("FAIRSHARE_SITE\n", 0o600, "line 1: isn't NAME=value"),
        ("SECRET_KEY=x\n", 0o644, "holds SECRET_KEY and may be read by others"),
        ("FAIRSHARE_LDAP_BIND_PASSWORD=x\n", 0o604, "FAIRSHARE_LDAP_BIND_PASSWORD_FILE"),
        ("DATABASE_URL=postgres://f:word@db/f\n", 0o644, "holds DATABASE_URL"),
        ("FAIRSHARE_SITE=a\n", 0o606, "may be written by others"),
    ],
)
def test_an_invalid_settings_file_is_refused_by_name(tmp_path: Path, text: str, mode: int, says: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=says) as refused:
        read(tmp_path, text, mode=mode)
    assert "word@" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("FAIRSHARE_ALOWED_HOSTS", "FAIRSHARE_ALOWED_HOSTS.*no setting.*did you mean FAIRSHARE_ALLOWED_HOSTS"),
        ("FAIRSHARE_TICKS_S", "did you mean FAIRSHARE_TICK_S"),
        ("FAIRSHARE_OIDC_CLIENT_SECRETS_FILE", "FAIRSHARE_OIDC_CLIENT_SECRET_FILE"),
        ("FAIRSHARE_", "no setting"),
    ],
)
def test_an_unknown_name_in_the_environment_is_refused_by_name(name: str, says: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=says) as refused:
        refuse_unknown_names({name: "a secret", "OTHER_ALOWED": "1"})
    assert "a secret" not in str(refused.value)


@pytest.mark.parametrize("service", ["FAIRSHARE", "FAIRSHARE_DB", "FAIRSHARE_EMAIL", "FAIRSHARE_POSTGRES_RW"])
def test_what_kubernetes_adds_for_a_service_stops_no_start(service: str) -> None:
    """Also where the name of a setting meets that of a service, as FAIRSHARE_EMAIL_PORT does."""
    environ = {
        **{f"{service}_SERVICE_HOST": "10.0.0.7", f"{service}_SERVICE_PORT": "5432"},
        **{f"{service}_SERVICE_PORT_PSQL": "5432", f"{service}_PORT": "tcp://10.0.0.7:5432"},
        **{f"{service}_PORT_5432_TCP": "tcp://10.0.0.7:5432", f"{service}_PORT_5432_TCP_PROTO": "tcp"},
        **{f"{service}_PORT_5432_TCP_PORT": "5432", f"{service}_PORT_5432_TCP_ADDR": "10.0.0.7"},
        **{f"{service}_NAME": "/web/db", f"{service}_ENV_PGDATA": "/d", "OTHER_PORT": "tcp://10.0.0.8:1"},
        "FAIRSHARE_SITE": "Nord grid",
    }
    forget_services(environ)
    assert environ == {"FAIRSHARE_SITE": "Nord grid", "OTHER_PORT": "tcp://10.0.0.8:1"}
    refuse_unknown_names(environ)


def test_a_setting_of_the_name_of_a_service_stays() -> None:
    """Kubernetes leaves out what the pod sets by itself."""
    of_pod = {"FAIRSHARE_PORT": "8000", "FAIRSHARE_EMAIL_PORT": "25"}
    added = {
        "FAIRSHARE_SERVICE_HOST": "10.0.0.7",
        "FAIRSHARE_SERVICE_PORT": "80",
        "FAIRSHARE_PORT_80_TCP_ADDR": "10.0.0.7",
    }
    environ = {**of_pod, **added}
    forget_services(environ)
    assert environ == of_pod


def test_a_misspelt_setting_beside_a_service_is_refused() -> None:
    environ = {"FAIRSHARE_DB_PORT": "tcp://10.0.0.7:5432", "FAIRSHARE_EMAIL_PORTS": "25", "FAIRSHARE_PORT": "8000"}
    forget_services(environ)
    assert environ == {"FAIRSHARE_EMAIL_PORTS": "25", "FAIRSHARE_PORT": "8000"}
    with pytest.raises(ImproperlyConfigured, match=r"FAIRSHARE_EMAIL_PORTS.*FAIRSHARE_EMAIL_PORT"):
        refuse_unknown_names(environ)


def test_names_of_other_programs_are_left_alone() -> None:
    named = {"FAIRSHARE_CONFIG"}
    for file in (
        "docker/.env.example",
        "docker/compose.yaml",
        "terminal/fairshare.py",
        "terminal/fairshare_callout.py",
    ):
        named |= set(re.findall(r"\bFAIRSHARE_[A-Z_]+\b", (REPOSITORY / file).read_text(encoding="utf-8")))
    assert {"FAIRSHARE_TOKEN", "FAIRSHARE_MEMORY"} <= named
    refuse_unknown_names(dict.fromkeys(named, "1"))


def test_a_missing_settings_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="can't be read"):
        read_settings_file({"FAIRSHARE_CONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("FAIRSHARE_SITE=a\n", 0o644),
        ("SECRET_KEY=x\n", 0o640),
        ("SECRET_KEY_FILE=/a\n", 0o644),
        ("DATABASE_URL=postgres://db/f\n", 0o644),
    ],
)
def test_a_file_with_secrets_must_be_private(tmp_path: Path, text: str, mode: int) -> None:
    assert text.partition("=")[0] in read(tmp_path, text, mode=mode)


def test_each_documented_setting_can_be_in_the_file() -> None:
    assert set(read_variables()) - {"FAIRSHARE_CONFIG"} <= known_names()


@pytest.mark.parametrize(("name", "status"), [("FAIRSHARE_SITE", 0), ("FAIRSHARE_SIGHT", 1)])
def test_commands_read_the_file(tmp_path: Path, name: str, status: int) -> None:
    file = tmp_path / "fairshare.conf"
    file.write_text(f"{name}=From the file\nFAIRSHARE_EMAIL=smtp\n")
    environ = {key: value for key, value in os.environ.items() if key != "FAIRSHARE_SITE"}
    environ |= {"FAIRSHARE_CONFIG": str(file), "FAIRSHARE_VAR": str(tmp_path / "var")}
    ended = subprocess.run(
        [sys.executable, "manage.py", "diffsettings"],
        cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == status, ended.stderr
    assert ("FAIRSHARE_SITE = 'From the file'" in ended.stdout) is (status == 0)
    assert ("EMAIL_BACKEND = 'apps.core.mail_server.EmailBackend'" in ended.stdout) is (status == 0)
    assert ("FAIRSHARE_SIGHT is no setting; did you mean FAIRSHARE_SITE?" in ended.stderr) is (status == 1)
    assert "Traceback" not in ended.stderr
