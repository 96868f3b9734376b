"""Policies, trees and documents by REST."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from typing import Any

import pytest
import yaml

from apps.accounts.actor import SYSTEM
from apps.policies.services import change_settings, publish_document
from apps.web.rest import rendering
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def by_path(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {entry["path"]: entry}
    for child in entry["children"]:
        found |= by_path(child)
    return found


def test_the_tree_has_the_numbers_of_the_snapshot(computed: Site, admin: Caller) -> None:
    tree = admin.get("policies/grid/tree", {"depth": 5}).json()
    assert (tree["policy"], tree["revision"], tree["name"], tree["path"]) == ("grid", 2, "grid", "/")
    found = by_path(tree)
    assert set(found) == {"/", "/physics", "/physics/alice", "/physics/bob", "/biology", "/biology/carol"}
    assert found["/physics"]["target"] == pytest.approx(0.6)
    assert found["/physics"]["actual"] == pytest.approx(0.7, abs=0.01)  # older hours have a slightly smaller weight
    assert found["/physics/alice"]["target_global"] == pytest.approx(0.4)
    assert found["/biology/carol"]["actual"] == 1.0
    single = admin.get("policies/grid/priorities", {"account": "alice"}).json()
    assert tree["snapshot"] == single["snapshot"]
    assert single["results"][0]["priorities"] == [found["/physics"]["priority"], found["/physics/alice"]["priority"]]
    assert set(found["/physics"]) >= {"uid", "name", "kind", "shares", "scope", "mount", "children"}


def test_usage_has_the_unit_of_the_metric(computed: Site, admin: Caller) -> None:
    alice = admin.get("policies/grid/tree", {"path": "/physics/alice"}).json()
    assert alice["usage_unit"] == "core_s"
    assert alice["usage"] == alice["usage_core_s"] > 0
    factors = [{"partition": name, "queue": "", "qos": "", "factor": 2.0} for name in ("", "gpu")]
    metric = {"weights": {"node_s": 1.0}, "class_factors": factors}
    change_settings(policy_slug="grid", settings={"metric": metric}, reason="x", at=computed.at, actor=SYSTEM)
    computed.recompute()
    alice = admin.get("policies/grid/tree", {"path": "/physics/alice"}).json()
    assert (alice["usage_unit"], alice["usage_core_s"]) == ("node_s", None)
    assert alice["usage"] is not None
    table = b"".join(admin.get("policies/grid/tree", {"format": "csv"})).decode()
    (row,) = [line for line in csv.DictReader(table.splitlines()) if line["name"] == "alice"]
    assert (row["usage_unit"], row["usage_core_s"]) == ("node_s", "")
    (unmatched,) = admin.get("policies/grid").json()["unmatched_class_factors"]
    assert unmatched == factors[1]


def test_depth_and_path_cut_the_tree(admin: Caller) -> None:
    tree = admin.get("policies/grid/tree", {"path": "/physics", "depth": 0}).json()
    assert (tree["name"], tree["n_children"], tree["children"]) == ("physics", 2, [])
    assert admin.get("policies/grid/tree", {"path": "/nowhere"}).status_code == 404
    assert admin.get("policies/grid/tree", {"depth": "65"}).status_code == 400


def test_without_a_snapshot_targets_are_known_and_the_rest_is_null(admin: Caller) -> None:
    tree = admin.get("policies/grid/tree", {"path": "/physics/alice"}).json()
    assert tree["target"] == pytest.approx(2 / 3)
    assert (tree["snapshot"], tree["actual"], tree["priority"], tree["rank"]) == (None, None, None, None)


def test_the_past_is_read_by_revision_and_by_time(admin: Caller) -> None:
    first = admin.get("policies/grid/tree", {"at": "1"}).json()
    assert (first["revision"], first["children"]) == (1, [])
    later = (AT + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert admin.get("policies/grid/tree", {"at": later}).json()["revision"] == 2
    assert admin.get("policies/grid/tree", {"at": "2020-01-01T00:00:00Z"}).status_code == 404
    assert admin.get("policies/grid/tree", {"at": "99"}).status_code == 404
    for bad in ("yesterday", "2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "1" * 12):
        assert admin.get("policies/grid/tree", {"at": bad}).status_code == 400


def test_users_see_their_own_path_and_granted_subtrees(computed: Site) -> None:
    alice = by_path(Caller(user=computed.alice).get("policies/grid/tree", {"depth": 5}).json())
    assert set(alice) == {"/", "/physics", "/physics/alice"}
    assert alice["/physics"]["hidden_children"] == 1
    pia = by_path(Caller(user=computed.pia).get("policies/grid/tree", {"depth": 5}).json())
    assert set(pia) == {"/", "/physics", "/physics/alice", "/physics/bob"}


def test_hidden_entries_are_answered_like_unknown_ones(computed: Site) -> None:
    caller = Caller(user=computed.pia)
    answers = [caller.get("policies/grid/tree", {"path": path}) for path in ("/biology", "/nothing")]
    assert [answer.status_code for answer in answers] == [404, 404]
    hidden, missing = ({**answer.json(), "request_id": ""} for answer in answers)
    assert hidden == missing


def test_a_token_of_a_subtree_starts_there(computed: Site) -> None:
    text = computed.token("policies:read", policy_slug="grid", subtree_uid=computed.uid("/physics"))
    caller = Caller(token=text)
    assert caller.get("policies/grid/tree").json()["path"] == "/physics"
    assert caller.get("policies/grid/tree", {"path": "/biology"}).status_code == 404
    assert caller.get("policies/grid/tree", {"path": "/"}).status_code == 404
    assert [found["slug"] for found in caller.get("policies").json()["results"]] == ["grid"]
    assert caller.get("policies/grid/document").status_code == 403


def test_the_document_can_be_published_again(site: Site, admin: Caller) -> None:
    answer = admin.get("policies/grid/document")
    assert answer.headers["Content-Type"] == "application/json"
    again = publish_document(policy_slug="grid", document=answer.json(), reason="same", at=AT, actor=SYSTEM)
    assert again.number == 2  # equal to the current tree
    text = admin.get("policies/grid/document", Accept="application/yaml")
    assert text.headers["Content-Type"].startswith("application/yaml")
    assert yaml.safe_load(text.content) == answer.json()


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [
        ("csv", "text/csv", "path,kind,shares,scope,sources,locked,uid\r"),
        ("sacctmgr", "text/x-sacctmgr", "Cluster - 'grid':Fairshare=1"),
        ("sacctmgr-script", "text/x-sacctmgr-script", "add cluster Name=tux Fairshare=1"),
        ("ge", "text/x-sge-sharetree", "name=Root"),
    ],
)
def test_a_document_is_available_in_scheduler_formats(admin: Caller, name: str, kind: str, line: str) -> None:
    cluster = {"cluster": "tux"} if name == "sacctmgr-script" else {}
    by_name = admin.get("policies/grid/document", {"format": name, **cluster})
    by_kind = admin.get("policies/grid/document", cluster, Accept=kind)
    assert by_name.content == by_kind.content
    assert by_name.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert line in by_name.content.decode().split("\n")
    assert "the policy%27s settings" in by_name.headers["Fairshare-Dropped"]
    assert "Fairshare-Dropped" not in admin.get("policies/grid/document", {"format": "yaml"}).headers


@pytest.mark.parametrize("name", ["json", "yaml", "csv"])
def test_a_long_document_flows_and_is_the_one_of_a_short_body(
    admin: Caller, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = admin.get("policies/grid/document", {"format": name})
    assert not whole.streaming
    monkeypatch.setattr(rendering, "_SHORT_BYTES", 10)
    flowing = admin.get("policies/grid/document", {"format": name})
    assert flowing.streaming
    assert b"".join(flowing.streaming_content) == whole.content
    for header in ("Content-Type", "Content-Disposition", "ETag", "Vary", "Cache-Control"):
        assert flowing.headers.get(header) == whole.headers.get(header), header


def test_a_document_in_an_unknown_format_is_refused(admin: Caller) -> None:
    assert refused(admin.get("policies/grid/document", {"format": "xls"})) == (400, "invalid", ["format"])
    unknown = admin.get("policies/grid/document", Accept="application/xml")
    assert refused(unknown) == (406, "not_acceptable", [])


def test_a_known_document_is_not_sent_again(admin: Caller) -> None:
    first = admin.get("policies/grid/document")
    again = admin.get("policies/grid/document", If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    other = admin.get("policies/grid/document", If_None_Match=first.headers["ETag"], Accept="application/yaml")
    assert other.status_code == 200


def test_a_policy_has_settings_and_head(admin: Caller) -> None:
    data = admin.get("policies/grid").json()
    assert (data["slug"], data["head_revision"], data["n_entries"]) == ("grid", 2, 6)
    assert data["settings"]["algorithm"]["name"] == "aequus"
    assert {found["slug"] for found in admin.get("policies").json()["results"]} == {"grid", "other"}


def test_explain_lists_the_path_from_root_to_entry(computed: Site) -> None:
    data = Caller(user=computed.alice).get("policies/grid/explain", {"account": "alice"}).json()
    (found,) = data["results"]
    assert [step["name"] for step in found["steps"]][-2:] == ["physics", "alice"]
    assert found["sentence"]
    assert json.dumps(data)


def test_a_recompute_is_a_run_that_can_be_followed(computed: Site, admin: Caller) -> None:
    answer = admin.post("policies/grid/recompute", {"as_of": None})
    assert answer.status_code == 202
    run = admin.get(f"runs/{answer.json()['run']}").json()
    assert (run["kind"], run["subject"], run["state"]) == ("recompute", "policy:grid", "queued")
    assert admin.post("policies/grid/recompute").json()["run"] == run["id"]  # joins the one that waits
    assert Caller(user=computed.nobody).get(f"runs/{run['id']}").status_code == 404
    assert Caller(user=computed.nobody).post("policies/grid/recompute").status_code == 403
    future = (AT + timedelta(days=1)).isoformat()
    assert admin.post("policies/grid/recompute", {"as_of": future}).status_code == 422


def test_snapshots_are_listed_newest_first(computed: Site, admin: Caller) -> None:
    newest = admin.get("policies/grid/priorities", {"account": "alice"}).json()["snapshot"]
    (found,) = admin.get("policies/grid/snapshots").json()["results"]
    assert (found["id"], found["revision"], found["watermarks"].keys()) == (newest, 2, {"cluster-a"})
