"""Plain lines of the Standard Workload Format from bytes to columns in one pass, as machine code.

A number is read as its digits, divided by a power of ten: both are exact, so the quotient is the nearest double, as any
other reader has it. Where digits exceed a double, and for all else that is rare, nothing is read.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.engine.fast import compiled_borrowing
from apps.usage.parsers.lines import MOST_LINE_BYTES

_TAB, _LINE_END, _RETURN, _BLANK = 9, 10, 13, 32
_PLUS, _MINUS, _POINT, _ZERO, _COMMENT, _LAST_CHARACTER = 43, 45, 46, 48, 59, 126
_MOST_DIGITS = 18  # of a whole number that has 64 bits
_BEYOND_WHOLE = (1 << 53) + 1  # the least whole number that no double has
_POWERS = 10.0 ** np.arange(_MOST_DIGITS + 1)


@compiled_borrowing
def read_plain_lines(data: npt.NDArray[np.uint8], columns: npt.NDArray[np.float64]) -> int:
    """Fill (fields, lines) with the first numbers of each line; return the fields of the first line.

    0 unless all are lines of numbers, as many as there is room for; what follows the numbers may be any visible ASCII.
    """
    n, (n_wanted, n_lines) = len(data), columns.shape
    at, line, n_fields = 0, 0, 0
    while at < n:
        begin, field = at, 0
        while True:
            while at < n and (data[at] == _BLANK or data[at] == _TAB):
                at += 1
            if at < n and data[at] == _RETURN:
                at += 1
                if at < n and data[at] != _LINE_END:
                    return 0
            if at == n or data[at] == _LINE_END:
                break
            if field < n_wanted:
                is_negative = data[at] == _MINUS
                if is_negative or data[at] == _PLUS:
                    at += 1
                digits, n_digits, n_places, is_behind_point = 0, 0, 0, False
                while at < n:
                    digit = int(data[at]) - _ZERO
                    if 0 <= digit <= 9:
                        digits = 10 * digits + digit
                        n_digits += 1
                        n_places += is_behind_point
                    elif data[at] == _POINT and not is_behind_point:
                        is_behind_point = True
                    else:
                        break
                    at += 1
                if n_digits == 0 or n_digits > _MOST_DIGITS or digits >= _BEYOND_WHOLE or line == n_lines:
                    return 0
                number = digits / _POWERS[n_places]
                columns[field, line] = -number if is_negative else number
                if at < n and data[at] > _BLANK:
                    return 0
            else:
                while at < n and data[at] > _BLANK:
                    if data[at] == _COMMENT or data[at] > _LAST_CHARACTER:
                        return 0
                    at += 1
            if at < n and data[at] != _BLANK and data[at] != _TAB and data[at] != _LINE_END and data[at] != _RETURN:
                return 0
            field += 1
        at += 1
        if field < n_wanted or at - begin > MOST_LINE_BYTES:
            return 0
        n_fields = n_fields or field
        line += 1
    return n_fields if line == n_lines else 0
