"""Allocations in the document of a policy: exported with the tree, proposed and published with it, and undone."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.allocations import services
from apps.contrib.allocations.exchange.file_formats import read_file
from apps.contrib.allocations.exchange.services import ImportOptions, import_allocations
from apps.core.errors import Invalid, NotAllowed
from apps.policies.files.exports import export_policy
from apps.policies.files.import_export import FileImport, ImportPlan, import_policy, plan_import
from apps.policies.models import Allocation, ChangeSet, Policy
from apps.policies.publishing.revert import revert_revision
from apps.policies.services import publish_change_set
from tests.instants import AT
from tests.policies import conftest as policies

policy, tree, alice, bob, charlie = policies.policy, policies.tree, policies.alice, policies.bob, policies.charlie

CSV = (
    b"entry,amount,starts_on,ends_on\n/physics,5000,2026-01-01,2026-12-31\n/physics/alice,1e-7,2026-01-01,2026-06-30\n"
)
FORMATS = ("yaml", "json")


def exported(format: str) -> str:
    return export_policy(policy_slug="grid", format=format, at=AT, actor=SYSTEM).text()


def file(content: str, format: str = "yaml") -> FileImport:
    return FileImport(policy_slug="grid", format=format, content=content.encode(), keep_missing=True)


def plan(content: str, format: str = "yaml", actor: Actor = SYSTEM) -> ImportPlan:
    return plan_import(file=file(content, format), at=AT, actor=actor)


def publish(content: str, format: str = "yaml") -> Any:
    return import_policy(file=file(content, format), publish=True, reason="Merged", at=AT, actor=SYSTEM)


def state() -> list[tuple[str, float, date, date]]:
    rows = services.list_allocations(policy_slug="grid", at=AT, actor=SYSTEM)
    return [(path, row.amount, row.starts_on, row.ends_on) for row, path in rows]


@pytest.fixture
def allocated(policy: Policy) -> Policy:
    options = ImportOptions(reason="Call of spring")
    import_allocations(policy_slug="grid", file=read_file("csv", CSV), options=options, at=AT, actor=SYSTEM)
    return policy


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_without_a_change_changes_nothing(allocated: Policy, format: str) -> None:
    content, before = exported(format), state()
    assert "Call of spring" in content
    assert plan(content, format).is_empty
    Allocation.objects.all().delete()
    assert plan(content, format).to_json()["sections"] == {"allocations": 2}
    publish(content, format)
    assert state() == before


def test_policies_without_allocations_are_exported_as_before(policy: Policy) -> None:
    for format in FORMATS:
        assert "allocations" not in exported(format)
    past = export_policy(policy_slug="grid", format="json", moment=1, at=AT, actor=SYSTEM)
    assert json.loads(past.text()).keys() == {"policy", "revision", "settings", "root"}


def test_new_entries_units_and_their_allocations_are_one_change_set(policy: Policy) -> None:
    content = json.loads(exported("json"))
    content["settings"]["units"] = [{"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}]
    content["root"]["children"].append({"name": "chemistry", "kind": "project", "shares": 5, "children": []})
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    content["allocations"] = [{"entry": "/chemistry", "unit": "GPU-h", "amount": 70, **days}]
    drafted = import_policy(file=file(json.dumps(content), "json"), at=AT, actor=SYSTEM)
    assert state() == [], "a draft allocates nothing"
    draft = drafted.change_set
    assert draft is not None
    assert [each["op"] for each in draft.operations][-1] == "allocate"
    publish_change_set(id=draft.pk, version=draft.version, reason="Merged", at=AT, actor=SYSTEM)
    row = Allocation.objects.get()
    assert (row.amount, row.unit, row.reason) == (70, "GPU-h", "Merged")
    assert plan(exported("yaml")).is_empty


def test_amounts_and_days_change_and_an_undone_revision_restores_them(allocated: Policy) -> None:
    before = state()
    content = json.loads(exported("json"))
    first, second = content["allocations"]
    first["amount"] = 6000
    second["ends_on"] = "2026-07-31"
    done = publish(json.dumps(content), "json")
    assert [row[1:] for row in state()] == [
        (6000, date(2026, 1, 1), date(2026, 12, 31)),
        (1e-7, date(2026, 1, 1), date(2026, 7, 31)),
    ]
    assert plan(exported("json"), "json").is_empty
    assert plan(json.dumps(content), "json").is_empty, "the document as it is in the repository"
    undo = revert_revision(policy_slug="grid", number=done.revision.number, at=AT, actor=SYSTEM)
    publish_change_set(id=undo.pk, version=undo.version, reason="Undo", at=AT, actor=SYSTEM)
    assert state() == before


def test_allocations_that_a_document_lacks_stay(allocated: Policy) -> None:
    content = json.loads(exported("json"))
    del content["allocations"][0]
    assert plan(json.dumps(content), "json").is_empty
    del content["allocations"]
    assert plan(json.dumps(content), "json").is_empty


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"amount": 0}, "allocations[0], amount"),
        ({"amount": -3}, "allocations[0], amount"),
        ({"unit": "SU"}, "allocations[0], unit"),
        ({"entry": "/nowhere"}, "allocations[0], entry"),
        ({"ends_on": "2025-01-01"}, "allocations[0], ends_on"),
        ({"colour": "red"}, "allocations[0], colour"),
    ],
)
def test_problems_are_named_and_nothing_is_stored(allocated: Policy, change: dict[str, Any], place: str) -> None:
    content, before = json.loads(exported("json")), state()
    content["allocations"][0] = {name: v for name, v in content["allocations"][0].items() if name != "uid"} | change
    with pytest.raises(Invalid) as refusal:
        publish(json.dumps(content), "json")
    assert [each.where for each in refusal.value.fields] == [place]
    assert state() == before
    assert not ChangeSet.objects.filter(origin="import").exists()


def test_only_a_view_of_the_whole_policy_imports_a_document(allocated: Policy, bob: Actor) -> None:
    with pytest.raises(NotAllowed):
        plan(exported("json"), "json", actor=bob)
