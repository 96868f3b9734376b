"""The page of files: a preview with what would change, problems beside it, and an import that counts once."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.policies.models import Allocation
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

FILE = f"/policy/{SLUG}/allocations/file/"
HEAD = "entry,amount,starts_on,ends_on\n"
YEAR = "2026-01-01,2026-12-31"


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    Allocation.objects.all().delete()
    sign_in(client, grid.admin)
    return client


def preview(client: Client, text: str, status: int = 200, **fields: Any) -> Page:
    return read(client.post(FILE, {"text": text, "step": "preview", **fields}), status)


def test_a_file_is_previewed_and_imported_once(admin: Client) -> None:
    content = f"{HEAD}/atlas,5000,{YEAR}\n".encode()
    first = read(admin.post(FILE, {"file": SimpleUploadedFile("a.csv", content), "step": "preview"}))
    assert not Allocation.objects.exists()
    assert "new: 1" in text_of(first.item("counts"))
    typed, tag = first.one("textarea[name=text]").text(), first.one("input[name=tag]").attributes["value"]
    assert tag is not None
    form = {"text": typed, "tag": tag, "reason": "Call of spring", "step": "import"}
    assert admin.post(FILE, form).status_code == 303
    assert [(row.amount, row.reason) for row in Allocation.objects.all()] == [(5000.0, "Call of spring")]
    again = preview(admin, typed)
    assert "the same: 1" in text_of(again.item("counts"))
    assert not again.has("button[value=import]")
    exported = admin.get(f"/policy/{SLUG}/allocations/file.csv")
    assert "the same: 1" in text_of(preview(admin, b"".join(exported).decode()).item("counts"))


def test_problems_are_beside_their_lines_and_nothing_can_be_imported(admin: Client) -> None:
    text = f"{HEAD}/atlas,5000,{YEAR}\n/nowhere,5,{YEAR}\n/atlas,-1,{YEAR}\n"
    page = preview(admin, text, 422)
    problems = text_of(page.item("problems"))
    assert "line 3, entry" in problems
    assert "line 4, amount" in problems
    assert not page.has("button[value=import]")
    assert admin.post(FILE, {"text": text, "step": "import", "reason": "x"}).status_code == 422
    assert not Allocation.objects.exists()


def test_an_import_needs_a_reason_and_the_preview_of_now(admin: Client) -> None:
    text = f"{HEAD}/atlas,5000,{YEAR}\n"
    assert admin.post(FILE, {"text": text, "step": "import"}).status_code == 422
    assert admin.post(FILE, {"text": text, "step": "import", "reason": "x", "tag": "old"}).status_code == 422
    assert not Allocation.objects.exists()


@pytest.mark.parametrize("text", ["", "path,shares\n/atlas,3\n", "{", "x" * 4_000_001])
def test_what_is_no_file_of_allocations_is_refused(admin: Client, text: str) -> None:
    preview(admin, text, 422)


def test_missing_allocations_are_withdrawn_when_asked(admin: Client) -> None:
    both = f"{HEAD}/atlas,5000,{YEAR}\n/biomed,7,{YEAR}\n"
    assert admin.post(FILE, {"text": both, "step": "import", "reason": "x"}).status_code == 303
    one = f"{HEAD}/biomed,7,{YEAR}\n"
    page = preview(admin, one, missing="withdraw")
    assert page.has("tr[data-action=withdraw]")
    assert admin.post(FILE, {"text": one, "step": "import", "reason": "x", "missing": "withdraw"}).status_code == 303
    assert Allocation.objects.filter(withdrawn_at=None).count() == 1
