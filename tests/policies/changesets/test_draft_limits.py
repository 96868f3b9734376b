"""What a draft refuses: who may not write, edits that fit no algorithm, and tables that are pasted wrongly."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import Actor, TokenBounds
from apps.core.errors import Invalid, Stale, TooLarge
from apps.policies.changesets import drafts
from apps.policies.files import import_export
from apps.policies.files.import_export import FileImport, import_policy, paste_table, plan_paste
from apps.policies.models import ChangeSet, Policy
from tests.instants import AT
from tests.policies.changesets.test_drafts import add, draft, shares  # noqa: F401 - draft is a fixture
from tests.policies.changesets.test_rebase import publish

HEADED = "path,shares\n/biology,51\n/physics,{shares}\n"


@pytest.mark.parametrize(("scope", "may"), [("policies:write", True), ("policies:read", False)])
def test_a_token_edits_with_the_scope_to_write(policy: Policy, alice: Actor, scope: str, may: bool) -> None:
    token = Actor(alice.user, "api", TokenBounds("fsh_x", frozenset({scope})))
    assert drafts.may_edit(policy, token, AT) == may


def test_no_edit_is_refused(draft: ChangeSet, alice: Actor) -> None:  # noqa: F811
    with pytest.raises(Invalid) as refused:
        add(draft, alice)
    assert [field.where for field in refused.value.fields] == ["operations"]


def test_a_draft_refuses_inherited_shares_that_its_algorithm_lacks(policy: Policy, alice: Actor) -> None:
    publish(alice, {"op": "set_policy", "settings": {"algorithm": {"name": "flux"}}})
    draft = drafts.open_draft(policy_slug="grid", at=AT, actor=alice)  # noqa: F811
    draft = add(draft, alice, shares("/physics", 31))
    with pytest.raises(Invalid) as refused:
        add(draft, alice, shares("/biology", 51), shares("/physics/bob", "parent"))
    assert refused.value.code == "no_inherit"
    draft.refresh_from_db()
    assert len(draft.operations) == 1
    assert len(add(draft, alice, shares("/physics/bob", 7)).operations) == 2


def test_a_pasted_table_is_limited_in_size_and_edits(
    draft: ChangeSet,  # noqa: F811
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TooLarge):
        plan_paste(draft, " " * (import_export.LONGEST_IMPORTED_TEXT + 1), at=AT, actor=alice)
    monkeypatch.setattr(import_export, "MOST_APPLIED_OPERATIONS", 2)
    text = HEADED.format(shares=31)
    assert len(plan_paste(draft, text, at=AT, actor=alice).operations) == 2
    draft = add(draft, alice, shares("/physics/bob", 7))
    with pytest.raises(TooLarge):
        plan_paste(draft, text, at=AT, actor=alice)


def many_rows(n: int) -> str:
    return "path\tshares\n" + "".join(f"/physics/user{i}\t{i + 1}\n" for i in range(n))


def test_too_many_edits_are_refused_before_they_are_worked_out(
    draft: ChangeSet,  # noqa: F811
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(import_export, "MOST_APPLIED_OPERATIONS", 20)
    monkeypatch.setattr(import_export, "operations_between", None)  # not called
    with pytest.raises(TooLarge, match=r"A draft holds at most 20 edits"):
        plan_paste(draft, many_rows(21), at=AT, actor=alice)


def test_thousands_of_pasted_rows_take_as_many_queries_as_one(draft: ChangeSet, alice: Actor) -> None:  # noqa: F811
    def queries_of(n: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert len(plan_paste(draft, many_rows(n), at=AT, actor=alice).operations) == n
        return len(queries)

    queries_of(1)  # reads what stays in memory
    assert queries_of(300) == queries_of(1)


def test_a_pasted_table_is_checked_once_and_again_where_the_draft_moved_on(
    draft: ChangeSet,  # noqa: F811
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[int] = []
    check = drafts.check_operations

    def counted(draft: ChangeSet, operations: Any, *more: Any) -> Any:
        checked.append(len(operations))
        return check(draft, operations, *more)

    for module in (drafts, import_export):
        monkeypatch.setattr(module, "check_operations", counted)
    paste_table(id=draft.pk, version=draft.version, text=many_rows(3), at=AT, actor=alice)
    assert checked == [0, 3], "without and with the table"
    draft.refresh_from_db()
    assert len(draft.operations) == 3
    with pytest.raises(Stale):
        paste_table(id=draft.pk, version=draft.version - 1, text=many_rows(4), at=AT, actor=alice)


def test_a_draft_of_a_whole_tree_takes_no_pasted_table(
    policy: Policy, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_export, "MOST_APPLIED_OPERATIONS", 0)
    content = b"path,kind,shares\n/physics,vo,90\n/biology,vo,10\n"
    made = import_policy(
        file=FileImport(policy_slug="grid", format="csv", content=content), reason="r", at=AT, actor=alice
    ).change_set
    assert made is not None
    with pytest.raises(Invalid) as refused:
        plan_paste(made, HEADED.format(shares=31), at=AT, actor=alice)
    assert refused.value.code == "whole"


@pytest.mark.parametrize(("text", "line"), [(HEADED, "line 3"), (HEADED.partition("\n")[2], "line 2")])
def test_a_wrong_line_has_its_number_with_and_without_a_header(
    draft: ChangeSet,  # noqa: F811
    alice: Actor,
    text: str,
    line: str,
) -> None:
    with pytest.raises(Invalid) as refused:
        plan_paste(draft, text.format(shares=-3), at=AT, actor=alice)
    assert [line in field.where for field in refused.value.fields] == [True]
