"""The page of units: an administrator declares, changes and removes one; tables and forms take it from there."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.policies.changesets.change_sets import settings_of
from apps.policies.files.exports import export_policy
from apps.policies.models import Allocation, Policy
from apps.usage.models import Kind
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

UNITS = f"/policy/{SLUG}/allocations/units/"
TABLE = f"/policy/{SLUG}/allocations/"
GPU = {"name": "GPU-hour", "symbol": "GPU-h", "weight_gpu_s": "1", "minimum": "15", "reason": "The board’s."}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def declared() -> list[dict[str, object]]:
    policy = Policy.objects.get(slug=SLUG)
    return settings_of(policy, policy.head_number).units


def test_a_unit_is_declared_changed_and_removed(admin: Client) -> None:
    first = read(admin.get(UNITS))
    assert "core-h" in first.text("table")
    assert "1 × Core-hours" in first.text("table")
    assert admin.post(UNITS, {**GPU, "step": "save"}).status_code == 303
    assert declared() == [
        {
            "name": "GPU-hour",
            "symbol": "GPU-h",
            "weights": {"gpu_s": 1.0},
            "class_factors": [],
            "minimum_charge_s": 900,
        }
    ]
    filled = read(admin.get(UNITS, {"unit": "GPU-h"}))
    assert filled.one("#id_weight_gpu_s").attributes["value"] == "1"
    assert filled.one("#id_minimum").attributes["value"] == "15"
    changed = {**GPU, "weight_cpu_s": "0.25", "minimum": "", "step": "save"}
    assert admin.post(UNITS, changed).status_code == 303
    assert declared()[0]["weights"] == {"cpu_s": 0.25, "gpu_s": 1.0}
    assert admin.post(UNITS, {"symbol": "GPU-h", "step": "remove"}).status_code == 303
    assert declared() == []


def test_bad_numbers_and_names_are_refused_beside_their_fields(admin: Client) -> None:
    wrong = admin.post(UNITS, {**GPU, "weight_gpu_s": "many", "step": "save"})
    assert wrong.status_code == 422
    assert read(wrong, 422).one("#id_weight_gpu_s").attributes.get("aria-invalid") == "true"
    same = admin.post(UNITS, {**GPU, "symbol": "core-h", "step": "save"})
    assert same.status_code == 422
    assert "is another unit" in read(same, 422).text("main")
    assert declared() == []


def test_factors_of_job_classes_are_typed_one_a_line(admin: Client) -> None:
    typed = {**GPU, "class_factors": ", fat, , 2\n; ;low;0.25", "step": "save"}
    assert admin.post(UNITS, typed).status_code == 303
    rules = [{"queue": "", "partition": "fat", "qos": "", "factor": 2.0}]
    rules.append({"queue": "", "partition": "", "qos": "low", "factor": 0.25})
    assert declared()[0]["class_factors"] == rules
    page = read(admin.get(UNITS, {"unit": "GPU-h"}))
    assert "partition fat: × 2" in page.text("table")
    assert page.text("#id_class_factors") == ", fat, , 2 , , low, 0.25"
    wrong = read(admin.post(UNITS, {**GPU, "class_factors": "fat, 2", "step": "save"}), 422)
    assert wrong.one("#id_class_factors").attributes.get("aria-invalid") == "true"
    negative = read(admin.post(UNITS, {**GPU, "class_factors": ", fat, , -1", "step": "save"}), 422)
    assert negative.one("#id_class_factors").attributes.get("aria-invalid") == "true"
    assert declared()[0]["class_factors"] == rules, "a refused form changes nothing"
    assert admin.post(UNITS, {**GPU, "step": "save"}).status_code == 303
    assert declared()[0]["class_factors"] == []


def test_the_page_says_since_when_a_minimum_counts(admin: Client, settings: Any) -> None:
    assert read(admin.get(UNITS)).all("[data-testid=minimum-note]") == []
    admin.post(UNITS, {**GPU, "step": "save"})
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 0
    assert "before" not in read(admin.get(UNITS)).text("[data-testid=minimum-note]")
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 100
    day = f"{AT - timedelta(days=100):%-d %B %Y}"
    assert f"jobs that ended before {day}" in read(admin.get(UNITS)).text("[data-testid=minimum-note]")


def test_an_allocation_in_a_unit_is_made_and_shown_in_it(admin: Client, grid: Grid) -> None:
    admin.post(UNITS, {**GPU, "step": "save"})
    page = read(admin.get(TABLE))
    assert [text_of(option) for option in page.all("#id_unit option")] == ["Core-hour (core-h)", "GPU-hour (GPU-h)"]
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    typed = {"entry": "/atlas", "amount": "1,000", "unit": "GPU-h", **days, "reason": "Round 12"}
    done = admin.post(TABLE, typed, follow=True)
    assert done.status_code == 200
    assert Allocation.objects.get().unit == "GPU-h"
    shown = read(done)
    assert "1,000 GPU-h are allocated to /atlas." in shown.text("body")
    assert "GPU-h" in shown.text("#board-title")
    refused = admin.post(UNITS, {"symbol": "GPU-h", "step": "remove"})
    assert refused.status_code == 422
    assert "withdraw them before" in read(refused, 422).text("body")


def test_links_of_a_page_stay_in_the_unit_that_it_shows(admin: Client, grid: Grid) -> None:
    admin.post(UNITS, {**GPU, "step": "save"})
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    for entry in ("/atlas", "/atlas/alice"):
        admin.post(TABLE, {"entry": entry, "amount": "1,000", "unit": "GPU-h", **days, "reason": "Round 12"})
    board = read(admin.get(TABLE))
    assert "GPU-h" in board.text("#board-title")
    listed = board.one("a[download][href*='board.csv']").attributes["href"] or ""
    (row, *_rows) = csv.DictReader(admin.get(listed).getvalue().decode().splitlines())
    assert (row["unit"], row["allocated"]) == ("GPU-h", "1000.0")
    page = read(admin.get(board.one("a.btn[href*='/periods/']").attributes["href"] or ""))
    assert "GPU-h" in page.text("#table-title")
    shares = page.one("a.btn[href*='/allocations/shares/']").attributes["href"] or ""
    assert "unit=GPU-h" in shares
    assert "1,000 GPU-h" in read(admin.get(shares)).text("main")
    assert "1,000 GPU-h" in read(admin.get(f"{TABLE}shares/")).text("main"), "without a unit in the address"
    file = page.one("a[download][href*='table.csv']").attributes["href"] or ""
    (first, *_more) = csv.DictReader(admin.get(file).getvalue().decode().splitlines())
    assert first["unit"] == "GPU-h"
    group = read(admin.get(f"{TABLE}periods/", {"of": str(grid.uid("/atlas"))}))
    hidden = [field.attributes["value"] for field in group.all("input[name=of]")]
    assert set(hidden) == {str(grid.uid("/atlas"))}, "forms keep the group"


def test_each_face_of_a_policy_shows_its_units(admin: Client, grid: Grid) -> None:
    admin.post(UNITS, {**GPU, "step": "save"})
    answer = admin.get(f"/api/v1/policies/{SLUG}").json()["settings"]["units"]
    assert [(each["symbol"], each["minimum_charge_s"]) for each in answer] == [("GPU-h", 900)]
    policy = Policy.objects.get(slug=SLUG)
    compared = read(
        admin.get(f"/policy/{SLUG}/history/diff/", {"from": policy.head_number - 1, "to": policy.head_number})
    )
    assert "GPU-hour" in compared.text("main")
    exported = export_policy(policy_slug=SLUG, format="json", at=clock.now(), actor=COMMAND).text()
    assert json.loads(exported)["settings"]["units"] == declared()


def test_an_unknown_unit_in_an_address_is_refused_with_those_there_are(admin: Client) -> None:
    for page in (TABLE, f"{TABLE}table.csv", f"/api/v1/policies/{SLUG}/allocations/table"):
        answer = admin.get(page, {"unit": "TPU-h"})
        assert answer.status_code == 422
        assert "core-h" in answer.content.decode()


def test_only_administrators_see_the_form(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    page = read(client.get(UNITS))
    assert page.all("#id_symbol") == []
    assert client.post(UNITS, {**GPU, "step": "save"}).status_code == 403


def test_weights_by_kind_are_typed_one_a_line_and_kinds_in_use_are_offered(admin: Client) -> None:
    Kind.objects.create(name="gpu:b300", first_at=AT)
    page = read(admin.get(UNITS))
    assert page.text("[data-testid=kinds-in-use]") == "In use: gpu:b300"
    typed = {**GPU, "weight_kinds": "gres/gpu:H100, 8\ngpu:t4; 0", "step": "save"}
    assert admin.post(UNITS, typed).status_code == 303
    assert declared()[0]["weights"] == {"gpu_s": 1.0, "gpu:h100": 8.0, "gpu:t4": 0.0}
    page = read(admin.get(UNITS, {"unit": "GPU-h"}))
    assert "8 × hours of gpu:h100" in page.text("table")
    assert page.text("#id_weight_kinds") == "gpu:h100, 8 gpu:t4, 0"
    exported = export_policy(policy_slug=SLUG, format="json", at=clock.now(), actor=COMMAND).text()
    assert json.loads(exported)["settings"]["units"] == declared()
    for wrong in ("gpu:h100", "h100, 8", "gpu:h100, -1", "gpu:h100, 8\nGPU:H100, 4", f"gpu:{'x' * 70}, 1"):
        refused = read(admin.post(UNITS, {**typed, "weight_kinds": wrong}), 422)
        assert refused.one("#id_weight_kinds").attributes.get("aria-invalid") == "true", wrong
    alone = {**GPU, "weight_gpu_s": "", "weight_kinds": "gpu:t4, 0", "step": "save"}
    assert admin.post(UNITS, alone).status_code == 422, "a unit without resources"
    assert declared()[0]["weights"] == {"gpu_s": 1.0, "gpu:h100": 8.0, "gpu:t4": 0.0}
