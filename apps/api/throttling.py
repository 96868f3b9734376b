"""Too frequent writes answer 429 with Retry-After; reads are unlimited, and look-ups are never counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

if TYPE_CHECKING:  # the framework's views read this module when they are imported
    from rest_framework.views import APIView

READS = "reads"  # what is asked for by POST because it is long


class WriteThrottle(SimpleRateThrottle):
    """One bucket for each person, whichever of their tokens they use; usage has a wider one of its own."""

    scope = "writes"

    def allow_request(self, request: Request, view: APIView) -> bool:
        scope = getattr(view, "throttle_scope", self.scope)
        if request.method in SAFE_METHODS or scope == READS:
            return True
        self.scope = scope
        self.rate = self.get_rate()
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return self.cache_format % {"scope": self.scope, "ident": request.user.pk}
