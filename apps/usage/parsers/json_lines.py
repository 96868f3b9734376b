"""One JSON object a line, of which only the used fields have to be readable."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import orjson

from apps.usage.parsers.field_values import BadRecord

_MOST_NUMBER = 1e300


def loaded(text: str) -> Any:
    """The line's value; bytes that aren't UTF-8 and lone surrogates matter only in fields that are used.

    Raises:
        BadRecord: it is not JSON.
    """
    with suppress(ValueError):
        return orjson.loads(text.encode())
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise BadRecord("bad_json", f"It is not JSON: {error}.") from error


def number_in(value: Any) -> float | None:
    """A plain number of JSON; None for others, and for those beyond what a float holds."""
    if type(value) not in (int, float) or not -_MOST_NUMBER < value < _MOST_NUMBER:  # NaN, too
        return None
    return float(value)
