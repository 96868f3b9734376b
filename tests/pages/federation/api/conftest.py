from __future__ import annotations

from tests.federation.conftest import side

__all__ = ["side"]
