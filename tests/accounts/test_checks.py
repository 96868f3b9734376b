"""Settings of sign-in that can't work, or trust too much, are reported at the start."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import Error, Warning, run_checks

from apps.accounts.checks import check_sign_in

OIDC = {
    "FAIRSHARE_OIDC_ISSUER": "https://idp.example",
    "FAIRSHARE_OIDC_CLIENT_ID": "x",
    "FAIRSHARE_OIDC_CLIENT_SECRET": "y",
}
LDAP = {"FAIRSHARE_LDAP_URL": "ldaps://dir.example", "FAIRSHARE_LDAP_PEOPLE": "ou=people"}
HEADER = {"FAIRSHARE_TRUSTED_HEADER": "Remote-User", "FAIRSHARE_TRUSTED_HEADER_ADDRESSES": ["10.0.0.5", "fd00::/64"]}


def found(settings: Any, given: dict[str, Any]) -> list[str]:
    for name, value in given.items():
        setattr(settings, name, value)
    return [str(message.id) for message in run_checks() if str(message.id).startswith("accounts.E0")]


@pytest.mark.parametrize("given", [{}, OIDC, LDAP, HEADER, {"FAIRSHARE_LINK_BY_NAME": ["ldap", "header"]}])
def test_valid_settings_pass_the_checks(settings: Any, given: dict[str, Any]) -> None:
    assert found(settings, given) == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (OIDC | {"FAIRSHARE_OIDC_CLIENT_SECRET": ""}, "accounts.E001"),
        (OIDC | {"FAIRSHARE_OIDC_ISSUER": "http://idp.example"}, "accounts.E002"),
        (OIDC | {"FAIRSHARE_OIDC_ISSUER": "https://[idp.example"}, "accounts.E002"),
        (LDAP | {"FAIRSHARE_LDAP_URL": "dir.example"}, "accounts.E003"),
        (LDAP | {"FAIRSHARE_LDAP_URL": "ldaps://[dir.example"}, "accounts.E003"),
        (LDAP | {"FAIRSHARE_LDAP_PEOPLE": ""}, "accounts.E004"),
        (LDAP | {"FAIRSHARE_LDAP_FILTER": "(uid=*)"}, "accounts.E005"),
        (LDAP | {"FAIRSHARE_LDAP_URL": "ldap://dir.example", "FAIRSHARE_LDAP_START_TLS": False}, "accounts.E006"),
        (HEADER | {"FAIRSHARE_TRUSTED_HEADER_ADDRESSES": []}, "accounts.E007"),
        (HEADER | {"FAIRSHARE_TRUSTED_HEADER_ADDRESSES": ["the proxy"]}, "accounts.E008"),
        (HEADER | {"FAIRSHARE_TRUSTED_HEADER_ADDRESSES": ["0.0.0.0/0"]}, "accounts.E009"),
        ({"FAIRSHARE_LINK_BY_NAME": ["shibboleth"]}, "accounts.E010"),
    ],
)
def test_invalid_settings_are_reported(settings: Any, given: dict[str, Any], complaint: str) -> None:
    assert found(settings, given) == [complaint]


PLAIN = LDAP | {"FAIRSHARE_LDAP_URL": "ldap://dir.example", "FAIRSHARE_LDAP_START_TLS": False}
BEHIND = HEADER | {"SECURE_PROXY_SSL_HEADER": None}


@pytest.mark.parametrize(
    ("values", "complaints"),
    [
        (LDAP | {"FAIRSHARE_LDAP_URL": "ldaps://"}, {"accounts.E003": Error}),
        (LDAP | {"FAIRSHARE_LDAP_URL": "ldap://dir.example", "FAIRSHARE_LDAP_START_TLS": True}, {}),
        (LDAP | {"FAIRSHARE_LDAP_START_TLS": False}, {}),
        (PLAIN | {"PRODUCTION": True}, {"accounts.E006": Error}),
        (PLAIN | {"PRODUCTION": False}, {"accounts.E006": Warning}),
        (PLAIN | {"PRODUCTION": True, "FAIRSHARE_LDAP_URL": "ldap://localhost"}, {}),
        (OIDC | {"FAIRSHARE_OIDC_ISSUER": "http://127.0.0.1:9000"}, {}),
        (BEHIND | {"AXES_IPWARE_PROXY_COUNT": 0}, {"accounts.W001": Warning}),
        (BEHIND | {"AXES_IPWARE_PROXY_COUNT": None}, {"accounts.W001": Warning}),
        (BEHIND | {"AXES_IPWARE_PROXY_COUNT": 1}, {}),
        ({"SECURE_PROXY_SSL_HEADER": ("X", "https"), "AXES_IPWARE_PROXY_COUNT": 0}, {"accounts.W001": Warning}),
        ({"SECURE_PROXY_SSL_HEADER": None, "AXES_IPWARE_PROXY_COUNT": 0}, {}),
    ],
)
def test_each_setting_counts_together_with_those_that_make_it_safe(
    settings: Any, values: dict[str, Any], complaints: dict[str, type]
) -> None:
    for name, value in values.items():
        setattr(settings, name, value)
    assert {message.id: type(message) for message in check_sign_in(None)} == complaints
