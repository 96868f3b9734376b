"""Windows of usage, and the decay functions that age it."""

from __future__ import annotations

from apps.engine.decay.functions import LAWS, LONGEST_S, Law
from apps.engine.decay.window import AGINGS, BUCKET_S, Aging, Window, bucket_weights, weights

__all__ = ["AGINGS", "BUCKET_S", "LAWS", "LONGEST_S", "Aging", "Law", "Window", "bucket_weights", "weights"]
