"""What a form for an allocation warns of while it is typed: of the page of an entry, and of the board's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any
from uuid import UUID

from apps.contrib.allocations.form_warnings import warnings_of
from apps.contrib.allocations.loaded import Loaded
from apps.contrib.allocations.pages.board_presenters import warning_text
from apps.contrib.allocations.pages.forms import zone
from apps.contrib.allocations.periods import FIRST_DAY, LAST_DAY, Period
from apps.core.typed_numbers import read_amount
from apps.policies.units import Unit


def typed_warnings(
    loaded: Loaded,
    *,
    entry_uid: UUID,
    unit: Unit,
    typed: Mapping[str, Any],
) -> list[str]:
    """Sentences on what is typed so far; what can't be read yet isn't warned of. unit: unless another is typed."""
    first, last = (read_day(str(typed.get(name) or "")) for name in ("starts_on", "ends_on"))
    days = Period(first, last) if first and last and FIRST_DAY <= first <= last <= LAST_DAY else None
    try:
        amount = read_amount(str(typed.get("amount") or ""))
    except ValueError:
        amount = None
    symbol = str(typed.get("unit") or "")
    symbol = symbol if symbol in {each.symbol for each in loaded.units} else unit.symbol
    warnings = warnings_of(
        loaded=loaded,
        entry_uid=entry_uid,
        unit=symbol,
        days=days,
        amount=amount,
        zone=zone(),
    )
    return [warning_text(each, symbol, loaded.view.now) for each in warnings]


def read_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
