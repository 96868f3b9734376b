"""Text that the database can't store is refused before anything looks for it, whatever the route."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.urls import get_resolver

from apps.accounts.models import AuditEvent
from tests.rest_document import rest_document
from tests.rest_site import Caller
from tests.small_site import Site
from tests.test_idor_matrix import routes

METHODS = ("get", "post")
OF_KIND = {"str": "a%00b", "slug": "grid", "int": "1", "uuid": "00000000-0000-4000-8000-000000000000", "path": "%00"}


def with_text_in_path() -> list[str]:
    found = set(routes(get_resolver()))
    return sorted(
        route for route in found if re.search(r"<(?:str:|path:)?\w+>", route) and not route.startswith("admin/")
    )


def address_of(route: str) -> str:
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda match: OF_KIND[str(match[1] or "str")], route)


def test_a_nul_in_a_path_is_found_nowhere(site: Site, caplog: Any) -> None:
    client = Client(raise_request_exception=True)
    client.force_login(site.pia, backend="django.contrib.auth.backends.ModelBackend")
    assert with_text_in_path()
    for route in with_text_in_path():
        for method in METHODS:
            answer: Any = getattr(client, method)(address_of(route), content_type="application/json")
            assert answer.status_code == 404, (method, route)
            assert answer.headers["Content-Type"].startswith(
                "application/problem+json" if route.startswith("api/") else "text/html"
            )
    assert "could not be logged" not in caplog.text
    assert not AuditEvent.objects.filter(subject__contains="%00").exists()


def test_a_refused_act_at_such_a_name_is_no_refusal_without_a_row(site: Site, caplog: Any) -> None:
    answer = Caller(user=site.pia).client.delete("/api/v1/federation/publications/%00")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "NUL" not in caplog.text


def test_every_parameter_of_rest_refuses_it_by_name(site: Site) -> None:
    caller, n_asked = Caller(user=site.admin), 0
    for path, methods in rest_document()["paths"].items():
        where = re.sub(r"\{\w+\}", "1", path.replace("{policy}", "grid").replace("{source}", "cluster-a"))
        for one in methods.get("get", {}).get("parameters", []):
            if one["in"] == "query":
                answer = caller.client.get(f"{where}?{one['name']}=a%00b")
                assert answer.status_code == 400, (path, one["name"])
                assert [field["where"] for field in answer.json()["fields"]] == [one["name"]]
                n_asked += 1
    assert n_asked > 80


def test_a_field_of_a_form_with_it_is_refused(site: Site) -> None:
    client = Client(raise_request_exception=True)
    client.force_login(site.admin, backend="django.contrib.auth.backends.ModelBackend")
    for path, field in (
        ("/me/password/", "x"),
        ("/policy/grid/access/assign/", "people"),
        ("/me/tokens/", "x"),
    ):
        answer: Any = client.post(path, {field: "a\0b"})
        assert answer.status_code == 400, path
        assert field in answer.content.decode()
