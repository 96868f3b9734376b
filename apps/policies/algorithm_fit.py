"""Whether a tree and an algorithm go together: not every algorithm knows inherited shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apps.engine.algorithms import get_algorithm
from apps.engine.errors import BadParameter
from apps.errors import FieldProblem, Invalid
from apps.policies.columns import TreeColumns


def refuse_misfit(tree: TreeColumns, algorithm: Mapping[str, Any]) -> None:
    """Raise Invalid (`no_inherit`) for an algorithm that takes no inherited shares and a tree that has some."""
    if not tree.inherit.any():
        return
    try:
        chosen = get_algorithm(str(algorithm["name"]))
    except BadParameter as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None
    if chosen.takes_inherit:
        return
    inheriting = np.flatnonzero(tree.inherit)
    first = tree.path(int(inheriting[0]))
    others = f" and {len(inheriting) - 1:,} more" if len(inheriting) > 1 else ""
    message = f"inherits its shares{others}, and {chosen.name} has no inherited shares: give numbers, or choose another"
    raise Invalid(
        f"{first} {message} algorithm.", code="no_inherit", fields=[FieldProblem(first, f"{message} algorithm")]
    )
