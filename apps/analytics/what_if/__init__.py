"""What-if: a priority at other usage or another target. Nothing is stored."""

from __future__ import annotations

from apps.analytics.what_if.trial import Place, Supposition, Tried, read_asked, try_out, try_out_mine

__all__ = ["Place", "Supposition", "Tried", "read_asked", "try_out", "try_out_mine"]
