"""State of the tree page: what its address keeps, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.priorities.selectors.tree_listing import DEEPEST, SORTS, Arrangement
from apps.web.listings.tree_listing import TREE
from apps.web.shell import lines, time_travel

MAX_QUERY = 128
LEVELS = (1, 2, 3, 4)
USUAL_COLUMNS = ("shares", "target", "actual", "balance", "trend", "own")
COLUMNS = tuple(TREE.names("table"))
_LARGEST_FIRST = ("target", "deviation", "factor")


@dataclass(frozen=True, slots=True)
class TreeState:
    """State of the tree page. columns: in the order of COLUMNS. sort: see Arrangement."""

    of: str = lines.OF_PARENT
    level: int | None = None
    open: Sequence[UUID] = ()
    shut: Sequence[UUID] = ()
    query: str = ""
    off_target: bool = False
    sort: str = ""
    columns: Sequence[str] = USUAL_COLUMNS
    at: int | datetime | None = None

    @property
    def arranged(self) -> Arrangement:
        return Arrangement(
            level=self.level,
            open_uids=self.open,
            shut_uids=self.shut,
            query=self.query,
            off_target=self.off_target,
            sort=self.sort,
        )

    def pairs(self) -> list[tuple[str, str]]:
        """Query parameters of this state; default values are left out."""
        pairs = [("of", self.of)] if self.of != lines.OF_PARENT else []
        if self.at is not None:
            pairs.append((time_travel.AT, time_travel.moment_text(self.at)))
        if self.level is not None:
            pairs.append(("level", str(self.level)))
        pairs += [("open", str(uid)) for uid in self.open] + [("shut", str(uid)) for uid in self.shut]
        pairs += [("q", self.query)] if self.query else []
        pairs += [("off", "1")] if self.off_target else []
        pairs += [("sort", self.sort)] if self.sort else []
        pairs += [("col", name) for name in self.columns] if tuple(self.columns) != USUAL_COLUMNS else []
        return pairs

    def address(self, **changes: Any) -> str:
        """Query string `?…` of this state with `changes`."""
        return f"?{urlencode(replace(self, **changes).pairs())}"

    def sorted_by(self, name: str) -> str:
        """Query string for the next click on a column's head: its default direction, the reverse, then the policy's
        order.
        """
        first, second = (f"-{name}", name) if name in _LARGEST_FIRST else (name, f"-{name}")
        return {first: second, second: ""}.get(self.sort, first)


def read_state(request: HttpRequest, query: QueryDict | None = None) -> TreeState:
    """State in the query string. Unknown values are replaced by defaults.

    query: state to read if the request's query string doesn't contain it.
    """
    requested = request.GET if query is None else query
    level = read_whole(requested.get("level", ""), 3)
    sort = requested.get("sort", "")
    chosen = set(requested.getlist("col"))
    return TreeState(
        of=lines.OF_TOTAL if requested.get("of") == lines.OF_TOTAL else lines.OF_PARENT,
        level=None if level is None else min(level, DEEPEST),
        open=tuple(uid_of(text) for text in requested.getlist("open")),
        shut=tuple(uid_of(text) for text in requested.getlist("shut")),
        query=requested.get("q", "").strip().replace("\0", "")[:MAX_QUERY],
        off_target=requested.get("off") == "1",
        sort=sort if sort.removeprefix("-") in SORTS else "",
        columns=tuple(name for name in COLUMNS if name in chosen) or USUAL_COLUMNS,
        at=time_travel.read_moment_param(request) if query is None else None,
    )


def toggled(requested: QueryDict) -> QueryDict:
    """State after opening or closing entries (`toggle=`), for browsers without JavaScript."""
    state = requested.copy()
    opened, shut = dict.fromkeys(state.getlist("open")), dict.fromkeys(state.getlist("shut"))
    for uid in map(str, state.pop("toggle")):
        if uid in opened:
            del opened[uid]
        elif uid in shut:
            del shut[uid]
        else:
            opened[uid] = None
    state.setlist("open", list(opened))
    state.setlist("shut", list(shut))
    return state


def uid_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        message = _("This address can’t name an entry. Open the tree again and choose it there.")
        raise Invalid(message, fields=[FieldProblem("address", text[:64])]) from None
