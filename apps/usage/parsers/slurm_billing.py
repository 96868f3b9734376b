"""Compute the exact billing of Slurm's jobs from TRESBillingWeights.

Slurm charges a job the weighted sum of its trackable resources (TRES), and records it truncated to a whole number. So
1 CPU and 2000 MB with CPU=1.0,Mem=0.25G are charged as 1.488 and recorded as billing=1.

    billing = Σ weight · amount                                       by default
    billing = max(weight · amount) of node resources + Σ of the rest   with PriorityFlags=MAX_TRES

Source: slurm.conf, TRESBillingWeights and PriorityFlags.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_BILLING_PARTITIONS = 10_000
MOST_BILLING_WEIGHT = 1e15  # of either sign; sums of larger ones may not be finite, and no billing of a job is as large
_LONGEST_WEIGHTS_TEXT = 4_096
_WEIGHT = re.compile(
    r"\s*+([^=\s]++)\s*+=\s*+([+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)\s*+([KMGTP]?)\s*+", re.IGNORECASE
)
_UNITS = "KMGTP"
IN_MEGABYTES = ("mem", "bb/", "gres/gpumem")
_OF_NODE = ("cpu", "mem", "node")
_GRES = "gres/"
_ROUNDING = 1e-9  # sums of doubles
MAX_TRES, MAX_TRES_GRES = "MAX_TRES", "MAX_TRES_GRES"


@dataclass(frozen=True)
class BillingWeights:
    """TRESBillingWeights of partitions, with the flag that changes their sum.

    partitions: text of the weights by partition; the others charge CPUs. flag: MAX_TRES, MAX_TRES_GRES or "".

    Raises:
        ValueError: a text is not a list such as CPU=1.0,Mem=0.25G.
    """

    partitions: Mapping[str, str] = field(default_factory=dict)
    flag: str = ""
    weights: Mapping[str, Mapping[str, float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.flag not in ("", MAX_TRES, MAX_TRES_GRES):
            raise ValueError(f"flag must be empty, {MAX_TRES} or {MAX_TRES_GRES}")
        if len(self.partitions) > MOST_BILLING_PARTITIONS:
            raise ValueError(f"more than {MOST_BILLING_PARTITIONS} partitions")
        object.__setattr__(self, "weights", {name: read_weights(text) for name, text in self.partitions.items()})

    @classmethod
    def from_json(cls, data: Any) -> BillingWeights:
        """Read {"partitions": {name: text}, "flag": text}; {} for none.

        Raises:
            ValueError: it is something else.
        """
        if not isinstance(data, Mapping) or set(data) - {"partitions", "flag"}:
            raise ValueError("must be an object with partitions and flag")
        partitions, flag = data.get("partitions", {}), data.get("flag", "")
        if not isinstance(partitions, Mapping) or not all(isinstance(text, str) for text in partitions.values()):
            raise ValueError("partitions must be an object of texts such as CPU=1.0,Mem=0.25G")
        if not isinstance(flag, str):
            raise ValueError("flag must be a text")
        return cls(dict(partitions), flag)

    def to_json(self) -> dict[str, Any]:
        return {"partitions": dict(self.partitions), "flag": self.flag} if self.partitions else {}

    def billing_of(self, partition: str, amounts: Sequence[tuple[str, float]]) -> float:
        """Exact billing of a job; NaN without weights for its partition, or without any amount.

        amounts: of each TRES by its name in AllocTRES; memory in MB.
        """
        weights = self.weights.get(partition)
        if weights is None or not amounts:
            return math.nan
        weighed = [(name.lower(), weights.get(name.lower(), 0.0) * amount) for name, amount in amounts]
        largest_of = {MAX_TRES: (*_OF_NODE, _GRES), MAX_TRES_GRES: _OF_NODE}.get(self.flag, ())
        is_largest_of = [name in largest_of or (_GRES in largest_of and name.startswith(_GRES)) for name, _ in weighed]
        rest = math.fsum(value for (_, value), is_one in zip(weighed, is_largest_of, strict=True) if not is_one)
        largest = max((value for (_, value), is_one in zip(weighed, is_largest_of, strict=True) if is_one), default=0.0)
        return max(0.0, largest + rest)


NO_WEIGHTS = BillingWeights()


def read_weights(text: str) -> dict[str, float]:
    """Weight by the lower-case name of each TRES, per MB of memory and per piece of everything else.

    A unit divides: 0.25G of memory is 0.25/1024 per MB. A unit at or below the base changes nothing.

    Raises:
        ValueError: it is not such a list, or a weight is beyond MOST_BILLING_WEIGHT.
    """
    if len(text) > _LONGEST_WEIGHTS_TEXT:
        raise ValueError(f"longer than {_LONGEST_WEIGHTS_TEXT} characters")
    weights: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        match = _WEIGHT.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:40]!r} is not a weight such as Mem=0.25G")
        name, unit = match[1].lower(), match[3].upper()
        power = _UNITS.index(unit) + 1 if unit else 0
        base = _UNITS.index("M") + 1 if name.startswith(IN_MEGABYTES) else 0
        weight = float(match[2])
        if abs(weight) > MOST_BILLING_WEIGHT:
            raise ValueError(f"{part[:40]!r} is a weight beyond {MOST_BILLING_WEIGHT:g}")
        if name != "billing":
            weights[name] = weight / 1024.0 ** max(0, power - base)
    return weights


def fits_recorded(exact: F8, recorded: F8) -> Flags:
    """Whether Slurm would record this billing: truncated, it is the recorded one. True where none was recorded."""
    is_truncated = (recorded - _ROUNDING <= exact) & (exact < recorded + 1.0 + _ROUNDING)
    return np.isnan(recorded) | is_truncated
