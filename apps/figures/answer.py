"""A figure as the JSON that the browser draws, the same for pages and REST."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from math import isfinite
from typing import Any

import orjson

from apps.figures.figure import Figure


def answer_of(figure: Figure) -> dict[str, Any]:
    """Everything a page needs to draw, read and update one figure. NaN and infinities are gaps: None."""
    return {
        "name": figure.name,
        "title": figure.title,
        "note": figure.note,
        "sentence": figure.sentence,
        "file": figure.file or f"fairshare_{figure.name}",
        "caption": figure.caption,
        "size": figure.size,
        "reads": figure.reads,
        "empty": figure.empty,
        "moment_url": figure.moment_url,
        "controls": [asdict(control) for control in figure.controls],
        "legend": [asdict(swatch) for swatch in figure.legend],
        "series": [asdict(swatch) for swatch in figure.series],
        "labels": [asdict(label) for label in figure.labels],
        "marks": [asdict(mark) for mark in figure.marks],
        "data": _without_nan(list(figure.traces)),
        "layout": _without_nan(figure.layout),
        "table": {
            "columns": [asdict(column) for column in figure.table.columns],
            "rows": [list(row) for row in figure.table.first_rows],
            "n_more": figure.table.n_more,
            "queries": list(figure.table.first_queries),
        },
        **figure.extra,
    }


def body_of(answer: Any) -> tuple[bytes, str]:
    """The bytes of an answer, and its ETag."""
    body = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return body, f'"{sha256(body).hexdigest()[:32]}"'


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value
