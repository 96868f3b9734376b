"""Windows of usage, and the decay functions that age it."""

from __future__ import annotations

from apps.engine.decay.functions import DECAY_FUNCTIONS, LONGEST_S, DecayFunction
from apps.engine.decay.window import AGINGS, BUCKET_S, Aging, Window, bucket_weights, weights

__all__ = [
    "AGINGS",
    "BUCKET_S",
    "DECAY_FUNCTIONS",
    "LONGEST_S",
    "Aging",
    "DecayFunction",
    "Window",
    "bucket_weights",
    "weights",
]
