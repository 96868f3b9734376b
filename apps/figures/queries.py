"""What addresses of figures ask for."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid


def read_choice(query: QueryDict, name: str, known: Sequence[str]) -> str:
    """One of the known words, the first where none is given. Raises Invalid with the name in the address."""
    text = query.get(name) or known[0]
    if text not in known:
        message = _("“%(text)s” is not one of %(known)s.") % {"text": text[:40], "known": ", ".join(known)}
        raise Invalid(message, fields=[FieldProblem(name, message)])
    return text


def read_days(query: QueryDict, name: str, known: Sequence[int]) -> int:
    """One of the known numbers of days, the first where none is given. Raises Invalid with the name in the address."""
    return int(read_choice(query, name, [str(days) for days in known]))
