"""The metric in the form of a draft, in documents, and in words: factors of classes and sites."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.pages.changes.drafts.settings_form import read_settings, typed
from apps.policies.files.document import read_document
from apps.policies.formats import json_document, yaml_document
from apps.policies.settings import PolicySettings
from apps.web.texts.value_texts import value_text

METRIC: dict[str, Any] = {
    "weights": {"cpu_s": 1.0, "gpu_s": 16.0, "gpu:h100": 128.0, "gpu:t4": 0.0, "license/matlab": 3.0},
    "class_factors": [
        {"queue": "gpu", "partition": "", "qos": "", "factor": 2.0},
        {"queue": "", "partition": "", "qos": "debug", "factor": 0.0},
    ],
    "site_factors": [{"site": "HPC2N, Umeå", "factor": 1.2}, {"site": "no", "factor": 0.5}],
}


def _with(metric: dict[str, Any]) -> PolicySettings:
    return PolicySettings.from_json({"metric": metric})


@pytest.mark.parametrize("form", [yaml_document, json_document], ids=["yaml", "json"])
def test_a_metric_survives_a_document_and_back(form: Any) -> None:
    settings = _with(METRIC)
    tree = read_document({"policy": "p", "root": {"name": "p", "children": [{"name": "a"}]}}).tree
    again = form.read("".join(form.write(tree, settings)))
    assert PolicySettings.from_json(again.settings).metric == METRIC


def test_the_form_reads_what_it_shows() -> None:
    base = PolicySettings()
    shown = typed(_with(METRIC))
    assert shown["site_factors"] == '"HPC2N, Umeå", 1.2\nno, 0.5'
    assert read_settings(shown, base) == {"metric": METRIC}
    assert read_settings(typed(base), base) == {}


@pytest.mark.parametrize(
    ("lines", "line"),
    [("HPC2N", "1"), ("HPC2N, fast", "1"), ("a, 1\n\nb, 2, 3", "3"), ('"a, 1', "1")],
)
def test_a_line_without_site_and_factor_is_reported(lines: str, line: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_settings({**typed(PolicySettings()), "site_factors": lines}, PolicySettings())
    (problem,) = refused.value.fields
    assert problem.where == "site_factors"
    assert re.findall(r"\d+", refused.value.message) == [line]


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ([{"site": "", "factor": 1}], "settings.metric.site_factors[0].site"),
        ([{"site": "a", "factor": 1}, {"site": "a", "factor": 2}], "settings.metric.site_factors[1].site"),
        ([{"site": "a", "factor": -1}], "settings.metric.site_factors[0].factor"),
        ([{"site": "a", "factor": float("nan")}], "settings.metric.site_factors[0].factor"),
        ([{"site": "a", "factor": 1e999}], "settings.metric.site_factors[0].factor"),
        ([{"site": "a"}], "settings.metric.site_factors[0].factor"),
        ([{"queue": "a", "factor": 1}], "settings.metric.site_factors[0].queue"),
        ({"a": 1}, "settings.metric.site_factors"),
        ([["a", 1]], "settings.metric.site_factors[0]"),
    ],
)
def test_an_invalid_speed_is_refused_with_its_line(given: Any, where: str) -> None:
    with pytest.raises(Invalid) as refused:
        _with({"site_factors": given})
    assert where in [problem.where for problem in refused.value.fields]


def test_settings_from_before_site_factors_are_read_unchanged() -> None:
    stored = PolicySettings().to_json()
    del stored["metric"]["site_factors"]
    assert PolicySettings.from_stored(stored) == PolicySettings()


def test_factors_are_described_in_text() -> None:
    words = value_text(METRIC)
    assert [each for each in ("gpu × 2;", "debug × 0", "HPC2N, Umeå × 1.2;", "no × 0.5") if each not in words] == []
    everything = value_text([{"queue": "", "partition": "", "qos": "", "factor": 3}], "class_factors")
    assert re.fullmatch(r"\D+ × 3", everything)
