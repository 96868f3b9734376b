"""Catalogue of sentences about priorities for pages, REST and terminals, by key and values."""

from __future__ import annotations

from apps.priorities.sentences.catalogue import (
    SCENARIO,
    TEXTS,
    Message,
    band_messages,
    build_message,
    json_value,
    text_of,
)
from apps.priorities.sentences.numbers import adjustment_sentence, unit_of, unit_of_metric

__all__ = [
    "SCENARIO",
    "TEXTS",
    "Message",
    "adjustment_sentence",
    "band_messages",
    "build_message",
    "json_value",
    "text_of",
    "unit_of",
    "unit_of_metric",
]
