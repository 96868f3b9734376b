"""Read numbers typed by people, with the same rules for forms, addresses and cases."""

from __future__ import annotations

import re
from math import isfinite

from django.utils.translation import gettext as _

LONGEST_TYPED_NUMBER = 400
MOST_TYPED_DIGITS = 18  # fit a bigint; 9 fit an integer
_GAP = re.compile(r"(?<=\d)[ '\u00a0\u2009\u202f\u2019](?=\d)")
_PLAIN = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?", re.ASCII)
_TWO_WAYS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)


class AmbiguousNumber(ValueError):
    """A comma that may be a group separator or a decimal comma."""


def read_number(text: str) -> float:
    """Read a finite number with a decimal point or comma.

    Groups of three digits may be separated by space, comma or point.

    Raises:
        AmbiguousNumber: `1,234`, which is 1234 or 1.234.
        ValueError: any other text that is no number. Both say what to type, in the reader's language.
    """
    plain = _without_gaps(text)
    if _TWO_WAYS.fullmatch(plain):
        ways = {"typed": plain, "whole": plain.replace(",", ""), "decimal": plain.replace(",", ".")}
        raise AmbiguousNumber(_("%(typed)s may be %(whole)s or %(decimal)s: enter one of these.") % ways)
    return _read(plain, are_points_decimal=True)


def read_amount(text: str) -> float:
    """Read core-hours and cores typed by people, ≥ 0: three digits after a comma or point are a group.

    Not for output of programs: `1.234` is read as 1234.
    """
    value = _read(_without_gaps(text), are_points_decimal=False)
    if value < 0:
        raise ValueError(_("Enter a number, such as 20 or 0.5."))
    return value


def _without_gaps(text: str) -> str:
    return _GAP.sub("", text.strip()) if len(text) <= LONGEST_TYPED_NUMBER else ""


def _read(plain: str, *, are_points_decimal: bool) -> float:
    if _COMMA_GROUPS.fullmatch(plain):
        plain = plain.replace(",", "")
    elif _POINT_GROUPS.fullmatch(plain) and not (are_points_decimal and _PLAIN.fullmatch(plain)):
        plain = plain.replace(".", "")
    value = float(plain.replace(",", ".")) if _PLAIN.fullmatch(plain) else float("nan")
    if not isfinite(value):
        raise ValueError(_("Enter a number, such as 20 or 0.5."))
    return value


def read_whole(text: str, most_digits: int = MOST_TYPED_DIGITS) -> int | None:
    """Read an integer ≥ 0 of an address or hidden field; None for anything else."""
    is_whole = text.isascii() and text.isdigit() and len(text) <= most_digits
    return int(text) if is_whole else None
