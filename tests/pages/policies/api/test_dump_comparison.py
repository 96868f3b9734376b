"""The policy against a dump of now by REST: the dump, the commands, or the difference."""

from __future__ import annotations

import pytest

from apps.web.rest.body_limits import Limit, limits_by_route
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

DUMP = """\
Cluster - 'demo':Fairshare=1
Parent - 'root'
Account - 'physics':Organization='science':Fairshare=50
Account - 'biology':Fairshare=40:MaxJobs=7
Parent - 'physics'
User - 'alice':Fairshare=2
User - 'zoe':Fairshare=2
Parent - 'biology'
User - 'carol':Fairshare=1
"""
PATH = "policies/grid/document/against"
KIND = "text/x-sacctmgr"


def test_the_difference_precedes_the_file(admin: Caller) -> None:
    shown = admin.post(f"{PATH}?format=sacctmgr-script&difference=1", DUMP, KIND)
    assert shown.json() == {
        "cluster": "demo",
        "n_changed": 1,
        "n_new": 1,
        "n_only_there": 1,
        "changes": [
            {"account": "physics", "user": "", "before": "50", "after": "60"},
            {"account": "physics", "user": "bob", "before": "", "after": "1"},
            {"account": "physics", "user": "zoe", "before": "2", "after": ""},
        ],
        "notes": [],
    }
    script = admin.post(f"{PATH}?format=sacctmgr-script", DUMP, KIND)
    assert script.headers["Content-Type"] == "text/x-sacctmgr-script; charset=utf-8"
    assert script.content.decode().splitlines()[1:] == [
        "modify account where name=physics cluster=demo set fairshare=60",
        "add user name=bob account=physics cluster=demo fairshare=1",
        "# not in the policy: remove user where name=zoe account=physics cluster=demo",
    ]
    new = admin.post(f"{PATH}?format=sacctmgr", DUMP, KIND).content.decode()
    assert new.startswith(DUMP.replace("Fairshare=50", "Fairshare=60"))


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("", DUMP, 400, "invalid"),
        ("?format=csv", DUMP, 400, "invalid"),
        ("?format=sacctmgr&cluster=a%20b", DUMP, 422, "invalid"),
        ("?format=sacctmgr", "", 422, "bad_document"),
        ("?format=sacctmgr", DUMP[:-9], 422, "bad_document"),
        ("?format=sacctmgr", DUMP + DUMP, 422, "bad_document"),
        ("?format=sacctmgr", DUMP.replace("=50", "=2147483648"), 422, "bad_document"),
    ],
)
def test_an_invalid_dump_gives_no_output(admin: Caller, query: str, body: str, status: int, code: str) -> None:
    assert refused(admin.post(f"{PATH}{query}", body, KIND))[:2] == (status, code)


def test_a_dump_over_the_limit_is_refused(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(limits_by_route(), "api:document-against", Limit(100))
    assert refused(admin.post(f"{PATH}?format=sacctmgr", DUMP, KIND))[:2] == (413, "too_large")


def test_comparing_needs_full_visibility_but_no_write_scope(site: Site) -> None:
    assert Caller(token=site.token("policies:read")).post(f"{PATH}?format=sacctmgr", DUMP, KIND).status_code == 200
    assert refused(Caller(user=site.pia).post(f"{PATH}?format=sacctmgr", DUMP, KIND))[:2] == (403, "partial_view")


def test_the_stored_dump_has_its_own_etag(admin: Caller) -> None:
    first = admin.get("policies/grid/document", {"format": "sacctmgr"})
    named = admin.get("policies/grid/document", {"format": "sacctmgr", "cluster": "demo"})
    assert first.headers["ETag"] != named.headers["ETag"]
    assert "Cluster - 'demo'" in named.content.decode()
    again = admin.get("policies/grid/document", {"format": "sacctmgr"}, If_None_Match=first.headers["ETag"])
    assert again.status_code == 304
