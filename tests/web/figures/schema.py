"""Holds a figure to the schema of plotly.js, as the Python package knows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from apps.web.figures import Figure
from apps.web.figures.figure import encode_json, figure_json

_LETTER_PX = 7.5  # of the axes' type, with the gap beside it
TOKENS = Path(__file__).resolve().parents[3] / "static" / "css" / "tokens.css"


def check_schema(figure: Figure) -> go.Figure:
    """The figure with every token as a colour; raises ValueError for a name or a value that plotly.js doesn't know."""
    answer = json.loads(encode_json(figure_json(figure))[0])
    assert {trace["type"] for trace in answer["data"]} <= {"scatter", "bar"}, "the basic bundle draws nothing else"
    if answer["data"]:
        ranges = [answer["layout"][axis]["range"] for axis in ("xaxis", "yaxis")]
        assert all(None not in ends for ends in ranges), "labels are placed before plotly.js has drawn"
        assert set(answer["layout"]["margin"]) >= set("lrtb")
        left = answer["layout"]["yaxis"].get("ticktext") or [""]
        assert answer["layout"]["margin"]["l"] >= _LETTER_PX * max(map(len, left)), "a label of the axis is cut"
    return go.Figure(colored(answer["data"]), colored(answer["layout"]))


def colored(value: Any) -> Any:
    """A copy in which each token is a colour, after a look at whether the stylesheet has it."""
    return _colored(value, set(re.findall(r"--([\w-]+):", TOKENS.read_text(encoding="utf-8"))))


def _colored(value: Any, known: set[str]) -> Any:
    if isinstance(value, str) and value.startswith("$"):
        name = value[1:].partition("/")[0]
        assert name in known, f"{value} is no design token"
        return "rgba(1,2,3,0.5)"
    if isinstance(value, dict):
        return {key: _colored(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_colored(one, known) for one in value]
    return value
