"""Pages are compressed without giving a secret away by their length; docs/security.md says why."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.test import Client
from whitenoise.middleware import WhiteNoiseMiddleware

from fairshare_web.static_files import StaticFiles
from tests.rest_site import Caller
from tests.small_site import Site

PASSWORD = "a-long-enough-phrase-of-pia"
PACKED = {"accept-encoding": "gzip, deflate, br"}
TOKEN = re.compile(rb'name="csrfmiddlewaretoken" value="(\w+)"')
TICKET = re.compile(rb'name="ticket" value="([^"]+)"')


@pytest.fixture
def pia(site: Site) -> Client:
    site.pia.set_password(PASSWORD)
    site.pia.save()
    client = Client(headers=PACKED)
    client.force_login(site.pia, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_a_page_is_compressed_for_those_who_accept_it(pia: Client) -> None:
    packed, plain = pia.get("/me/tokens/"), pia.get("/me/tokens/", headers={"accept-encoding": "identity"})
    assert packed["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain
    assert "Accept-Encoding" in packed["Vary"]
    assert "Accept-Encoding" in plain["Vary"]
    assert len(packed.content) < len(plain.content) / 3
    assert b"</html>" in gzip.decompress(packed.content)


def test_two_answers_have_two_csrf_tokens(pia: Client) -> None:
    """Else a length would tell whether a guess of the token is right."""
    pages = [gzip.decompress(pia.get("/me/tokens/").content) for _ in range(2)]
    first, second = (set(TOKEN.findall(page)) | set(re.findall(rb'X-CSRFToken": "(\w+)', page)) for page in pages)
    assert first
    assert second
    assert first.isdisjoint(second)


def test_a_secret_that_is_shown_once_is_not_compressed(pia: Client) -> None:
    found = TICKET.search(gzip.decompress(pia.get("/me/tokens/").content))
    assert found
    form = {"name": "laptop", "days": "90", "scopes": ["self:read"], "password": PASSWORD, "ticket": found[1].decode()}
    answer = pia.post("/me/tokens/", form)
    assert b"fsh_" in answer.content
    assert "Content-Encoding" not in answer


def test_rest_is_left_to_itself(site: Site) -> None:
    answer = Caller(user=site.pia).get("policies", Accept_Encoding="gzip")
    assert answer.status_code == 200
    assert "Content-Encoding" not in answer


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("identity", None)])
def test_static_files_are_packed_once_and_served_by_what_is_accepted(
    tmp_path: Path, settings: LazySettings, accepted: str, encoding: str | None
) -> None:
    settings.STATIC_ROOT = tmp_path
    settings.WHITENOISE_USE_FINDERS = settings.WHITENOISE_AUTOREFRESH = False
    storage = StaticFiles(location=tmp_path, base_url="/static/")
    (tmp_path / "css").mkdir()
    (tmp_path / "css" / "frame.css").write_text("a { color: red; }\n" * 200, encoding="utf-8")
    list(storage.post_process({"css/frame.css": (storage, "css/frame.css")}))
    served = WhiteNoiseMiddleware(lambda _request: None)
    found = served.files[f"/static/{storage.stored_name('css/frame.css')}"]
    response = found.get_response("GET", {"HTTP_ACCEPT_ENCODING": accepted})
    assert dict(response.headers).get("Content-Encoding") == encoding
