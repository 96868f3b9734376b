"""Allocations as a file by REST: compared, imported, and exported unchanged."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.models import User
from apps.policies.models import Allocation
from tests.contrib.allocations.exchange.portal_answers import R1, cf_allocation, waldur_resource
from tests.instants import AT
from tests.small_site import Site, build_site

FILE = "/api/v1/policies/grid/allocations/file"
TABLE = "entry,amount,starts_on,ends_on\n/physics,5000,2026-01-01,2026-12-31\n/biology,7,2026-03-01,2026-03-31\n"


@pytest.fixture
def site(db: None) -> Site:
    return build_site(AT)


def put(site: Site, body: str, query: str = "", kind: str = "text/csv", scope: str = "policies:write") -> Any:
    headers = {"Authorization": f"Bearer {site.token(scope)}"}
    return Client().put(f"{FILE}?{query}", body.encode(), content_type=kind, headers=headers)


def get(site: Site, format: str) -> str:
    headers = {"Authorization": f"Bearer {site.token('policies:read')}"}
    answer = Client().get(f"{FILE}?format={format}", headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_file_is_compared_imported_and_exported(site: Site) -> None:
    compared = put(site, TABLE, "dry_run=1").json()
    assert compared["counts"] == {"add": 2, "change": 0, "withdraw": 0, "same": 0}
    assert [(each["path"], each["amount"], each["place"]) for each in compared["changes"]] == [
        ("/physics", 5000.0, "line 2"),
        ("/biology", 7.0, "line 3"),
    ]
    assert not Allocation.objects.exists()
    done = put(site, TABLE, f"reason=Call&tag={compared['tag']}").json()
    assert (done["dry_run"], done["counts"]["add"]) == (False, 2)
    again = put(site, TABLE, "reason=Call")
    assert again.json()["counts"] == {"add": 0, "change": 0, "withdraw": 0, "same": 2}
    for format, kind in (("csv", "text/csv"), ("yaml", "application/yaml"), ("json", "application/json")):
        assert put(site, get(site, format), "dry_run=1", kind).json()["counts"]["same"] == 2
    assert len(json.loads(get(site, "json"))["allocations"]) == 2


def test_what_is_refused_changes_nothing(site: Site) -> None:
    refused = put(site, TABLE.replace("7,2026", "0,2026"), "reason=Call")
    assert refused.status_code == 422
    assert refused.json()["fields"][0]["where"] == "line 3, amount"
    assert put(site, TABLE, "reason=Call&tag=another").status_code == 412
    assert put(site, TABLE).json()["code"] == "reason_missing"
    assert put(site, TABLE, kind="text/plain").status_code == 415
    assert put(site, TABLE, "reason=Call", scope="policies:read").status_code == 403
    assert not Allocation.objects.exists()


USAGE = "/api/v1/policies/grid/allocations/portal-usage"


def ask_usage(site: Site, body: Any, user: User | None = None) -> Any:
    headers = {"Authorization": f"Bearer {site.token('policies:read', user=user)}"}
    return Client().post(USAGE, body, content_type="application/json", headers=headers)


def test_the_state_of_use_is_answered_as_the_command_prints_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice used 6 core-hours and bob 1 in physics: 7 of ColdFront's, and 0.01 of Waldur's thousands."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    coldfront = {"allocations": [cf_allocation(1, "physics", 300), cf_allocation(3, "biology", 50)]}
    waldur = {"resources": [waldur_resource(R1, "physics", {"cpu": 3})]}
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    for portal, answers, units in (("coldfront", coldfront, []), ("waldur", waldur, ["cpu=core-h*1000"])):
        answered = ask_usage(site, {"portal": portal, "answers": answers, "units": units, **days})
        assert answered.status_code == 200, answered.content
        file = tmp_path / f"{portal}.json"
        file.write_text(json.dumps(answers))
        out = io.StringIO()
        options = [f"--unit={unit}" for unit in units] + ["--starts-on=2026-01-01", "--ends-on=2026-12-31"]
        call_command("portal", "usage", "--policy=grid", f"--from={portal}", f"--file={file}", *options, stdout=out)
        assert answered.json()["usage"] == json.loads(out.getvalue()) != []
    (of_physics, _of_biology) = ask_usage(site, {"portal": "coldfront", "answers": coldfront, **days}).json()["usage"]
    assert of_physics["allocation_attributes"][0]["usage"] == 7


def test_the_state_of_use_is_of_what_the_caller_sees_and_bad_answers_are_refused(site: Site) -> None:
    body = {"portal": "coldfront", "answers": {"allocations": [cf_allocation(1, "biology", 300)]}}
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    assert ask_usage(site, body | days, site.nobody).status_code == 404
    for wrong, code in (
        ({"portal": "other"}, "invalid"),
        ({"answers": [1]}, "invalid"),
        ({"answers": {"allocations": 7}}, "bad_portal"),
        ({"units": ["cpu=core-h*0"]}, "invalid"),
        ({"units": ["x=y"] * 101}, "too_large"),
        ({"starts_on": "soon"}, "invalid"),
    ):
        answered = ask_usage(site, body | days | wrong)
        assert (answered.json()["code"], answered.status_code // 100) == (code, 4), wrong
    assert Allocation.objects.count() == 0


def test_a_token_of_a_subtree_reads_the_state_of_use_of_that_part_alone(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    answers = {"allocations": [cf_allocation(1, "physics", 300), cf_allocation(3, "biology", 50)]}
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    read = {}
    for path in ("/physics", "/biology"):
        text = site.token("policies:read", policy_slug="grid", subtree_uid=site.uid(path))
        body = {"portal": "coldfront", "answers": answers, **days}
        headers = {"Authorization": f"Bearer {text}"}
        answered = Client().post(USAGE, body, content_type="application/json", headers=headers)
        read[path] = [each["allocation_attributes"][0].get("usage") for each in answered.json()["usage"]]
    assert read == {"/physics": [7], "/biology": [3]}
