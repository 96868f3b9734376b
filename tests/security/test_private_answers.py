"""What holds for every answer: no cache keeps private ones, TRACE repeats nothing, the Host is one of ours."""

from __future__ import annotations

import pytest
from django.conf import LazySettings
from django.core.checks import run_checks
from django.test import Client
from django.urls import get_resolver

from apps.web.rest.body_limits import DEFAULT, KB, UNKNOWN, limit_of, limits_by_route
from tests.rest_site import Caller
from tests.security.routes import all_addresses
from tests.small_site import Site
from tests.test_idor_matrix import is_private
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_responses_of_the_admin_site_are_not_cached(computed: Site) -> None:
    """tests/test_idor_matrix.py holds each answer of all other routes to it."""
    stranger, admin = Client(), Client()
    admin.force_login(computed.admin, backend="django.contrib.auth.backends.ModelBackend")
    wrong = {}
    for address in [address for address in all_addresses() if address.startswith("/admin/")]:
        for client in (stranger, admin):
            answer = client.get(address)
            if not is_private(answer):
                wrong[address] = (answer.status_code, answer["Cache-Control"], answer.get("Vary"))
    assert wrong == {}


def test_responses_with_tokens_are_private(computed: Site) -> None:
    scheduler = Caller(token=computed.token("priorities:read"))
    for path in ("priorities?account=alice", "priorities/all", "priorities?account=alice&format=csv", "tree"):
        answer = scheduler.get(f"policies/grid/{path}")
        varies = set(answer["Vary"].split(", "))
        assert (answer["Cache-Control"], varies >= {"Authorization", "Cookie"}) == ("private, no-store", True), path


def test_trace_is_refused_everywhere(computed: Site) -> None:
    client = Client()
    answers = {address: client.trace(address, headers={"cookie": "a=1"}) for address in all_addresses()}
    assert {answer.status_code for answer in answers.values()} == {405}
    assert all("Allow" in answer.headers and b"a=1" not in answer.content for answer in answers.values())


def test_not_modified_has_no_content_type(computed: Site) -> None:
    scheduler = Caller(token=computed.token("priorities:read"))
    first = scheduler.get("policies/grid/priorities?account=alice")
    again = scheduler.get("policies/grid/priorities?account=alice", If_None_Match=first["ETag"])
    assert again.status_code == 304
    assert "Content-Type" not in again


@pytest.mark.parametrize(
    "path", ["/api/v1/policies/grid/priorities?account=alice", "/metrics", "/sign-in/", "/static/x"]
)
def test_another_host_is_refused_before_any_query(computed: Site, path: str) -> None:
    """A name that leads here without being ours: the page of a stranger would read what is allowed to 127.0.0.1."""
    headers = {"host": "attacker.example", "authorization": f"Bearer {computed.token('priorities:read')}"}
    assert Client().get(path, headers=headers).status_code == 400


def test_a_probe_reaches_a_container_by_its_address(site: Site) -> None:
    for path in ("/healthz", "/readyz"):
        assert Client().get(path, headers={"host": "10.0.0.7:8000"}).status_code == 200


PROXY_HEADERS = (
    "x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-server x-forwarded-port forwarded x-real-ip via"
    " cf-connecting-ip cf-ray true-client-ip x-client-ip x-cluster-client-ip x-original-forwarded-for"
    " fastly-client-ip x-envoy-external-address x-azure-clientip fly-client-ip x-amzn-trace-id cdn-loop"
)


@pytest.mark.parametrize("header", PROXY_HEADERS.split())
def test_an_uncounted_proxy_disables_metrics_by_address(site: Site, settings: LazySettings, header: str) -> None:
    assert Client().get("/metrics").status_code == 200
    forwarded = Client().get("/metrics", headers={header: "192.0.2.9"})
    assert (forwarded.status_code, "FAIRSHARE_PROXY_COUNT" in forwarded.json()["detail"]) == (401, True)
    token = {"authorization": f"Bearer {site.token('priorities:read')}"}
    assert Client().get("/metrics", headers={header: "192.0.2.9", **token}).status_code == 200


def production(settings: LazySettings) -> None:
    settings.PRODUCTION = settings.SECURE_SSL_REDIRECT = True
    settings.ALLOWED_HOSTS = ["fairshare.example.org"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_probes_and_scrapes_of_this_machine_need_no_https(
    computed: Site, settings: LazySettings, path: str, host: str
) -> None:
    production(settings)
    for address in ("127.0.0.1", "::1"):
        assert Client(REMOTE_ADDR=address).get(path, headers={"host": host}).status_code == 200
    assert Client().get("/sign-in/", headers={"host": "fairshare.example.org"}).status_code == 301


def test_metrics_of_other_machines_and_of_proxies_need_https(computed: Site, settings: LazySettings) -> None:
    production(settings)
    site = {"host": "fairshare.example.org"}
    assert Client(REMOTE_ADDR="192.0.2.9").get("/metrics", headers=site).status_code == 301
    assert Client(REMOTE_ADDR="192.0.2.9").get("/metrics", headers={"host": "127.0.0.1"}).status_code == 400
    assert Client().get("/metrics", headers=site).status_code == 301
    assert Client().get("/metrics", headers={**site, "x-forwarded-for": "192.0.2.9"}).status_code == 301
    assert Client().get("/metrics", headers={"host": "127.0.0.1", "via": "1.1 x"}).status_code == 400
    assert Client(REMOTE_ADDR="192.0.2.9").get("/readyz", headers={"host": "10.0.0.7:8000"}).status_code == 200


def test_a_proxy_that_adds_no_header_opens_no_metrics(computed: Site, settings: LazySettings) -> None:
    """In production: it passes on the site's name, or it would not reach the pages."""
    production(settings)
    assert Client().get("/metrics", headers={"host": "fairshare.example.org"}, secure=True).status_code == 401


@pytest.mark.parametrize(
    "sign",
    [
        {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")},
        {"FAIRSHARE_TRUSTED_HEADER": "Remote-User", "FAIRSHARE_TRUSTED_HEADER_ADDRESSES": ["10.0.0.1"]},
    ],
)
def test_the_start_warns_of_an_uncounted_proxy(settings: LazySettings, sign: dict[str, object]) -> None:
    def warned() -> bool:
        return any(message.id == "accounts.W001" for message in run_checks())

    assert not warned()
    for name, value in sign.items():
        setattr(settings, name, value)
    assert warned()
    settings.AXES_IPWARE_PROXY_COUNT = 1
    assert not warned()


def test_every_limit_of_a_body_is_of_a_route(settings: LazySettings) -> None:
    assert limit_of("/sign-in/").n_bytes == 16 * KB
    assert limit_of("/api/v1/policies/grid/compare") == DEFAULT
    assert limit_of("/api/v1/nowhere") == limit_of("/\udce4") == UNKNOWN
    settings.FAIRSHARE_UPLOAD_BYTES = 5_000_000
    assert 5_000_000 < limit_of("/usage/import/").n_bytes < 7_000_000
    names = {
        name
        for namespace, (_, inner) in get_resolver().namespace_dict.items()
        for name in (f"{namespace}:{each}" for each in inner.reverse_dict if isinstance(each, str))
    }
    assert set(limits_by_route()) - names == set()
