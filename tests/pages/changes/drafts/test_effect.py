"""What a draft does to the entries that its page shows: the same numbers for all of its views."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.core import clock
from apps.pages.changes.drafts import effect
from apps.policies.models import ChangeSet
from tests.grants import make_grant
from tests.pages.changes.drafts.test_draft_shares import HTMX, draft_of, url
from tests.pages.grid import Grid
from tests.sign_in import sign_in


def asked(client: Client, draft: ChangeSet, **fields: str) -> dict[str, Any]:
    answer = client.get(url(draft, "_effect"), fields, headers=HTMX)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def rows_of(grid: Grid, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    by_uid = {row["uid"]: row for row in found["rows"]}
    paths = ("/atlas", "/biomed", "/cms", "/atlas/alice", "/biomed/carol")
    return {path: by_uid[uid] for path in paths if (uid := str(grid.uid(path))) in by_uid}


def test_a_tried_edit_moves_targets_and_ranks_and_is_not_saved(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft, root, biomed = draft_of(grid.admin), str(grid.uid("/")), str(grid.uid("/biomed"))
    found = asked(client, draft, group=root, op="set_shares", entry=biomed, shares="200")
    rows = rows_of(grid, found)
    assert (rows["/biomed"]["before_text"], rows["/biomed"]["target_text"]) == ("30.00", "74.07\u00a0%")
    assert rows["/biomed"]["places"]["direction"] == "up"
    assert rows["/atlas"]["places"]["direction"] == "down"
    assert rows["/cms"]["places"] == {"direction": "", "text": "\u2013", "phrase": "no rank changes"}
    assert found["n_moved"] == 4
    assert found["change"] == "4 change rank"
    assert found["lead"] == "4 change rank · 2 other targets drop by 63.0\u00a0%"
    assert {each["name"] for each in found["most"]} == {"atlas", "biomed"}
    draft.refresh_from_db()
    assert (draft.version, draft.operations) == (1, [])


def test_a_draft_without_edits_changes_nothing_and_says_so(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    found = asked(client, draft_of(grid.admin), group=str(grid.uid("/")))
    assert (found["n_moved"], found["lead"], found["most"]) == (0, "", [])
    assert (found["change"], found["note"]) == ("No rank changes", "No rank changes.")
    assert {row["before_text"] for row in found["rows"]} == {""}


def test_entries_in_view_are_added_to_those_of_the_group_once(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft, root = draft_of(grid.admin), str(grid.uid("/"))
    wanted = ",".join(grid.uid(path).hex for path in ("/atlas", "/atlas/alice"))
    found = asked(client, draft, group=root, rows=wanted)
    assert [*rows_of(grid, found)] == ["/atlas", "/biomed", "/cms", "/atlas/alice"]
    assert len(found["rows"]) == 4
    assert len(asked(client, draft, rows=wanted)["rows"]) == 2


def test_ranks_of_very_large_policies_are_left_to_the_preview(
    grid: Grid, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect, "_MOST_RANKED", 3)
    sign_in(client, grid.admin)
    found = asked(client, draft_of(grid.admin), group=str(grid.uid("/")))
    assert (found["n_moved"], found["change"]) == (None, "")
    assert found["note"] == "The preview shows the ranks of a policy of this size."
    assert {row["places"]["text"] for row in found["rows"]} == {""}


def test_a_hidden_entry_is_left_out_and_nonsense_is_refused(closed_grid: Grid, client: Client) -> None:
    lead = User.objects.create_user("lead")
    make_grant(lead, closed_grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    draft = draft_of(lead)
    assert asked(client, draft, rows=str(closed_grid.uid("/biomed")))["rows"] == []
    alice = str(closed_grid.uid("/atlas/alice"))
    found = asked(client, draft, group=str(closed_grid.uid("/atlas")), op="set_shares", entry=alice, shares="100")
    assert found["n_moved"] == 2, "alice and bob, whom the lead sees"
    assert {each["name"] for each in found["most"]} == {"alice", "bob"}
    assert client.get(url(draft, "_effect"), {"rows": "nonsense"}, headers=HTMX).status_code == 422
