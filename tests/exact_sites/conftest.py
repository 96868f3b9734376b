from __future__ import annotations

from tests.priority_site import _clock

__all__ = ["_clock"]
