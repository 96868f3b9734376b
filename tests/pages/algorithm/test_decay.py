"""The page of a policy's usage window: decay functions in words, the remaining weight, and the change itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.engine.arrays import FloatArray
from apps.engine.decay import weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, decay_function
from apps.engine.parameters import Settings, number
from apps.pages.algorithm.decay.presenters import hourly_error
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.services import change_settings
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.priorities.serving import store
from apps.web.texts.decay_phrases import decay_phrase
from tests.examples import first
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

PAGE = f"/policy/{SLUG}/decay/"


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def active_window() -> dict[str, Any]:
    policy = Policy.objects.get(slug=SLUG)
    return settings_of(policy, policy.head_number).window


@pytest.mark.parametrize(
    ("window", "found"),
    [
        ({}, ["7 d"]),
        ({"aging": "none"}, []),
        ({"aging": "linear"}, ["90 d"]),
        ({"aging": "step"}, ["0.5", "1 h"]),
        ({"aging": "slurm"}, ["Slurm", "7 d"]),
        ({"aging": "gridengine"}, ["Grid Engine", "168 h"]),
        ({"aging": "gridengine", "halftime_h": 0}, []),
        ({"aging": "lsf"}, ["LSF", "5 h"]),
        ({"aging": "lsf", "hist_hours": 0}, []),
        ({"aging": "pbs"}, ["PBS", "0.5", "1 d"]),
        ({"aging": "flux"}, ["Flux", "7 d", "4"]),
        ({"aging": "none", "reset": "quarterly"}, ["reset each quarter"]),
        ({"reset": "weekly"}, ["7 d", "reset each Sunday"]),
    ],
)
def test_every_decay_function_has_a_phrase_with_its_unit(window: dict[str, Any], found: list[str]) -> None:
    settings = PolicySettings.from_json({"window": window})
    phrase = decay_phrase(settings.window).replace("\N{NO-BREAK SPACE}", " ")
    assert [each for each in found if not re.search(rf"(?<![\d.]){re.escape(each)}(?!\w)", phrase)] == []
    assert bool(phrase) == bool(found), "usage that doesn't decay has no phrase"


@pytest.mark.parametrize("window", [{"aging": "none"}, {"aging": "exponential", "half_life_s": 86400}])
def test_the_heading_names_the_decay_if_there_is_one(admin: Client, window: dict[str, Any]) -> None:
    change_settings(policy_slug=SLUG, settings={"window": window}, reason="x", at=clock.now(), actor=COMMAND)
    phrase = decay_phrase(PolicySettings.from_json({"window": window}).window).replace("\N{NO-BREAK SPACE}", " ")
    heading = read(admin.get(PAGE)).text("#verdict")
    assert bool(phrase) == ("half_life_s" in window)
    assert heading.count(",") == bool(phrase)
    assert phrase in heading


def test_usage_is_reset_at_the_chosen_dates(admin: Client) -> None:
    page = read(admin.get(PAGE))
    assert text_of(page.one("#id_reset option[selected]")) == "Never"
    typed = {"aging": "exponential", "half_life_s": "7 d", "length_s": "90 d", "reset": "monthly", "reason": "Months."}
    typed["base_revision"] = str(page.one("[name=base_revision]").attributes["value"])
    previewed = read(admin.post(PAGE, {**typed, "step": "preview"}))
    stated = previewed.one("[name=previewed]").attributes["value"]
    admin.post(PAGE, {**typed, "step": "publish", "previewed": stated})
    assert (active_window()["reset"], active_window()["reset_zone"]) == ("monthly", "UTC")
    assert "reset each month" in read(admin.get(PAGE)).text("#verdict")
    assert text_of(read(admin.get(PAGE)).one("#id_reset option[selected]")) == "Each month"


def test_every_decay_function_can_be_previewed_without_a_change(admin: Client) -> None:
    before = active_window()
    for name in DECAY_FUNCTIONS:
        answer = admin.get(PAGE, {"aging": name})
        assert answer.status_code == 200, name
        assert f"<code>{name}</code>" in answer.content.decode()
        assert read(answer).has('[name="step"][value="preview"]')
        assert not read(answer).has('[data-testid="may-not-change"]')
    assert active_window() == before
    assert admin.get(PAGE, {"aging": "magic"}).status_code == 404


def test_a_decay_function_is_previewed_published_and_shown_on_other_pages(admin: Client, grid: Grid) -> None:
    typed = {"aging": "lsf", "length_s": "30 d", "hist_hours": "10", "reason": "As the cluster does."}
    preview = admin.post(PAGE, {**typed, "step": "publish"})  # not previewed yet
    assert preview.status_code == 200
    assert "31.6\N{NO-BREAK SPACE}%" in preview.content.decode()  # after 5 of 10 hours: the square root of a tenth
    assert active_window()["aging"] == "exponential"
    stated = preview.context["stated"]
    answer = admin.post(PAGE, {**typed, "step": "publish", "previewed": stated})
    assert answer.status_code == 303
    window = active_window()
    assert (window["aging"], window["hist_hours"], window["length_s"]) == ("lsf", 10.0, 30 * 86_400)
    grid.recompute()
    store.forget()
    decay = read(admin.get(f"/policy/{SLUG}/")).item("decay")
    assert decay.attributes["data-state"] == "lsf"
    assert "10 h" in text_of(decay)


def test_publishing_needs_a_reason(admin: Client) -> None:
    typed = {"aging": "none", "length_s": ""}
    stated = admin.post(PAGE, typed).context["stated"]
    answer = admin.post(PAGE, {**typed, "step": "publish", "previewed": stated})
    assert [one.attributes["name"] for one in read(answer, 422).all('[aria-invalid="true"]')] == ["reason"]
    assert active_window()["aging"] == "exponential"


@pytest.mark.parametrize(
    ("typed", "place"),
    first(
        3,
        [
            ({"aging": "pbs", "decay_factor": "1,5"}, "decay_factor"),
            ({"aging": "pbs", "decay_time_s": "soon"}, "decay_time_s"),
            ({"aging": "flux", "periods": "2.5"}, "periods"),
            ({"aging": "exponential", "half_life_s": "-3 d"}, "half_life_s"),
            ({"aging": "linear", "length_s": ""}, "length_s"),
            ({"aging": "none", "length_s": "1e9 d"}, "length_s"),
            ({"aging": "none", "length_s": "0"}, "length_s"),
        ],
    ),
)
def test_invalid_input_is_kept_with_its_error(admin: Client, typed: dict[str, str], place: str) -> None:
    answer = admin.post(PAGE, {**typed, "reason": "Why not."})
    assert answer.status_code == 422
    wrong = {field.name: field for field in answer.context["form"].fields if field.error}
    assert list(wrong) == [place]
    assert wrong[place].value == typed[place]


def test_only_administrators_change_the_decay_function(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    page = read(client.get(PAGE))
    assert page.has('[data-testid="may-not-change"]')
    assert not page.has('[name="step"]')
    typed = {"aging": "none", "length_s": "", "reason": "I would like it."}
    stated = client.post(PAGE, typed).context["stated"]
    answer = client.post(PAGE, {**typed, "step": "publish", "previewed": stated})
    assert (answer.status_code, answer.context["refusal"].code) == (403, "not_allowed")
    assert active_window()["aging"] == "exponential"


@pytest.mark.parametrize(
    ("window", "error"),
    [
        ({"aging": "exponential", "half_life_s": 7_200, "length_s": None}, 1 - 2**-0.5),
        ({"aging": "exponential", "half_life_s": 86_400, "length_s": None}, 1 - 2 ** (-1 / 24)),
        ({"aging": "exponential", "half_life_s": 604_800, "length_s": None}, None),
        ({"aging": "slurm", "half_life_s": 7_200, "length_s": None}, 1 - (1 - 0.693 / 7_200) ** 3_600),
        ({"aging": "slurm", "half_life_s": 7_200, "length_s": None, "calc_period_s": 300}, None),
        ({"aging": "none", "length_s": None}, None),
    ],
)
def test_the_error_of_the_hour_is_named_where_decay_is_fast(window: dict[str, Any], error: float | None) -> None:
    assert hourly_error(window) == (None if error is None else pytest.approx(error))


def test_another_function_needs_its_registration_alone(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, REST and pages take it and its parameters from the registry."""
    monkeypatch.setitem(DECAY_FUNCTIONS, "plateau", None)  # removed again after the test

    parameter = number("whole_d", "Days that count whole", 14, 0, 99)

    @decay_function("plateau", "Plateau", "1 for whole_d days", "an example", parameter)
    def plateau(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
        return np.where(age <= settings["whole_d"] * 86_400, 1.0, 0.0)

    window = PolicySettings.from_json({"window": {"aging": "plateau", "whole_d": 7}}).window
    assert weights([0, 6 * 86_400, 8 * 86_400], window_of(window)).tolist() == [1, 1, 0]
    assert decay_phrase(window) == "Plateau, whole_d 7"
    listed = admin.get("/api/v1/decay-functions").json()["results"]
    assert [one["parameters"][0]["name"] for one in listed if one["name"] == "plateau"] == ["whole_d"]
    assert admin.get("/policy/grid/decay/?aging=plateau").status_code == 200
