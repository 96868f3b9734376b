"""How often one user may have priorities of a whole tree computed."""

from __future__ import annotations

from django.core.cache import cache
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import TooOften

MOST_COMPUTATIONS_A_MINUTE = 60


def limit_computations(actor: Actor) -> None:
    """Count one computation of the whole tree. Raises TooOften above MOST_COMPUTATIONS_A_MINUTE of a user."""
    key = f"computations:{actor.user.pk if actor.user is not None else 0}"
    cache.add(key, 0, 60)
    try:
        n = cache.incr(key)
    except ValueError:  # the counter has just expired
        return
    if n > MOST_COMPUTATIONS_A_MINUTE:
        raise TooOften(
            _("Too many requests: the limit is %(n)s a minute. Wait a moment.") % {"n": MOST_COMPUTATIONS_A_MINUTE}
        )
