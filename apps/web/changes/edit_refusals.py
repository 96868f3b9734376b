"""Refused edits of a draft: the message and the form's field, without the index of the operation."""

from __future__ import annotations

import re

from apps.core.errors import DomainError, Invalid, problem_sentence

_FIELD_PATH = re.compile(r"^operations\[\d+\]\.?([a-z_.\[\]0-9]*):? ?")


def message_of(error: DomainError) -> str:
    """Message of a refusal without the index of the operation, which the page does not show."""
    text = _FIELD_PATH.sub("", error.message)
    return text if text == error.message else problem_sentence(text)


def field_of(error: Invalid) -> str:
    """Name of the form's field that a refusal is about; empty if it names none."""
    if not error.fields:
        return ""
    match = _FIELD_PATH.match(error.fields[0].where)
    return (match[1] if match else error.fields[0].where).split(".")[0].split("[")[0]
