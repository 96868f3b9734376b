"""The card for frames: which headers it has, and that it can only be read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from fairshare_web.environment import env_origins
from tests.pages.grid import Grid

pytestmark = pytest.mark.django_db
CARD = "/me/card/"
PORTALS = ["https://ondemand.example.org", "https://portal.example.org:8443"]


def directives(answer: Any) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in answer["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in parts}


def member(name: str = "alice") -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name), backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_without_the_setting_no_page_may_frame_it(grid: Grid, settings: Any) -> None:
    settings.FAIRSHARE_FRAME_ORIGINS = []
    answer = member().get(CARD)
    assert answer.status_code == 200
    assert answer["X-Frame-Options"] == "DENY"
    assert directives(answer)["frame-ancestors"] == "'none'"


def test_only_this_card_may_be_framed_and_only_by_the_origins_of_the_setting(grid: Grid, settings: Any) -> None:
    settings.FAIRSHARE_FRAME_ORIGINS = PORTALS
    client = member()
    answer = client.get(CARD)
    assert "X-Frame-Options" not in answer
    assert directives(answer)["frame-ancestors"] == " ".join(PORTALS)
    for path in ("/me/priority/", "/sign-in/", "/", "/api/v1/me"):
        other = client.get(path)
        assert other["X-Frame-Options"] == "DENY", path
        assert directives(other)["frame-ancestors"] == "'none'", path


def test_nothing_that_is_clicked_in_it_acts(grid: Grid, settings: Any) -> None:
    settings.FAIRSHARE_FRAME_ORIGINS = PORTALS
    client = member()
    answer = client.get(CARD)
    text = answer.content.decode()
    assert "/atlas/alice" in text
    assert not re.search(r"<(form|button|input|script|iframe)\b|csrf|\bhx-|\bon\w+=", text)
    links = re.findall(r"<a [^>]*>", text)
    assert links
    assert all('target="_blank" rel="noopener"' in link for link in links)
    policy = directives(answer)
    assert [policy[name] for name in ("script-src", "connect-src", "form-action")] == ["'none'"] * 3
    assert answer["Cache-Control"] == "private, no-store"
    for method in ("post", "put", "patch", "delete"):
        assert getattr(client, method)(CARD).status_code == 405


def test_who_isnt_signed_in_reads_nobodys_place(grid: Grid, settings: Any) -> None:
    settings.FAIRSHARE_FRAME_ORIGINS = PORTALS
    answer = Client().get(CARD)
    assert answer.status_code == 200
    assert "alice" not in answer.content.decode()
    assert "Sign in" in answer.content.decode()


@pytest.mark.parametrize(
    "text", ["*", "https://*.example.org", "example.org", "https://a.example/path", "'self'", "a b"]
)
def test_the_setting_takes_exact_origins_alone(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    from django.core.exceptions import ImproperlyConfigured

    monkeypatch.setenv("FAIRSHARE_FRAME_ORIGINS", f"https://good.example/,{text}")
    with pytest.raises(ImproperlyConfigured, match="FAIRSHARE_FRAME_ORIGINS has"):
        env_origins("FAIRSHARE_FRAME_ORIGINS")
    monkeypatch.setenv("FAIRSHARE_FRAME_ORIGINS", "https://good.example/, http://127.0.0.1:8000")
    assert env_origins("FAIRSHARE_FRAME_ORIGINS") == ["https://good.example", "http://127.0.0.1:8000"]
