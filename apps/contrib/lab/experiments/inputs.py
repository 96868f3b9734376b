"""Everything that the simulations of one experiment read, as one blob: jobs, sites, and the tree of each variant.

A simulation is a function of this blob, the variant's index and the seed, and reads nothing else: repeated on another
day or another machine, it gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.contrib.lab.experiments.spec import ExperimentSpec, Site, read_spec
from apps.contrib.lab.simulated_tree import SimulatedTree
from apps.core import blobs

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
# Bits of `GivenJobs.marks`.
WAS_RUNNING, WAS_WAITING, NO_SUBMIT_TIME = 1, 2, 4


@dataclass(frozen=True, eq=False)
class GivenJobs:
    """Jobs of a log or of the site, (n,), by the instant at which they are submitted, in seconds from the start.

    before_s: how long before the start they were submitted, or (WAS_RUNNING) started. requested_s: −1 where unknown.
    site: index, −1 for any that is wide enough. who: account, or user and group of a log; index in `entry_of_who`.
    rate: usage per second in the policy's metric. waited_s: how long it waited in fact, NaN where it hasn't started.
    """

    at_s: F8
    before_s: F8
    run_s: F8
    requested_s: F8
    cpus: I8
    site: I8
    who: I8
    rate: F8
    marks: U1
    waited_s: F8

    def __len__(self) -> int:
        return len(self.at_s)


@dataclass(frozen=True, eq=False)
class PastUsage:
    """Hourly usage before the start, (m,), in the policy's metric. hour: from the start, negative. site: −1 for others
    than those that are simulated.
    """

    entry: I8
    site: I8
    hour: I8
    amount: F8


@dataclass(frozen=True, eq=False)
class VariantInputs:
    """The tree of one variant, and its settings as in a revision. entry_of_who: entry of each stream, account, or user
    and group of a log; −1 where there is none, whose jobs are left out. rate: of each job, usage per second in the
    variant's metric; empty where it is that of the jobs.
    """

    tree: SimulatedTree
    entry_of_who: I8
    past: PastUsage
    settings: Mapping[str, Any]
    rate: F8 = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class Inputs:
    """variants: None for one that can't be simulated. jobs: None where they are drawn. origin_s: the start, in seconds
    since 1970; 0 where it is no instant.

    day_ends_s: ends of the days whose core-hours are summed up, in seconds from the start. cpus_by_day: of a replay,
    processors of each site on each day of 24 hours from the start, (sites, days); else empty.
    """

    spec: ExperimentSpec
    hours: float
    sites: tuple[Site, ...]
    variants: Sequence[VariantInputs | None]
    jobs: GivenJobs | None = None
    origin_s: float = 0.0
    day_ends_s: tuple[float, ...] = ()
    first_day: str = ""
    cpus_by_day: I8 = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def variant(self, index: int) -> VariantInputs:
        variant = self.variants[index]
        if variant is None:
            raise LookupError(f"Variant {index} can't be simulated.")
        return variant

    def pack(self) -> tuple[bytes, str]:
        columns: dict[str, Any] = {}
        if self.jobs is not None:
            columns |= {f"jobs.{name}": getattr(self.jobs, name) for name in _JOBS}
        if self.cpus_by_day.size:
            columns["cpus_by_day"] = self.cpus_by_day.reshape(-1)
        for index, variant in enumerate(self.variants):
            if variant is None:
                continue
            prefix = f"{index}."
            columns |= variant.tree.columns(f"{prefix}tree.")
            columns[f"{prefix}entry_of_who"] = variant.entry_of_who
            columns[f"{prefix}rate"] = variant.rate
            columns |= {f"{prefix}past.{name}": getattr(variant.past, name) for name in _PAST}
        meta = {
            "spec": self.spec.to_json(),
            "hours": self.hours,
            "sites": [asdict(site) for site in self.sites],
            "settings": [None if variant is None else dict(variant.settings) for variant in self.variants],
            "has_jobs": self.jobs is not None,
            "origin_s": self.origin_s,
            "day_ends_s": list(self.day_ends_s),
            "first_day": self.first_day,
        }
        return blobs.pack(columns, meta)

    @classmethod
    def unpack(cls, data: bytes | memoryview, digest: str) -> Inputs:
        """Raises CorruptBlob as `blobs.unpack`."""
        columns, meta = blobs.unpack(data, digest)
        variants = [
            None
            if settings is None
            else VariantInputs(
                SimulatedTree.of_columns(columns, f"{index}.tree."),
                columns[f"{index}.entry_of_who"],
                PastUsage(*(columns[f"{index}.past.{name}"] for name in _PAST)),
                settings,
                columns[f"{index}.rate"],
            )
            for index, settings in enumerate(meta["settings"])
        ]
        jobs = GivenJobs(*(columns[f"jobs.{name}"] for name in _JOBS)) if meta["has_jobs"] else None
        return cls(
            read_spec(meta["spec"]),
            meta["hours"],
            tuple(Site(**site) for site in meta["sites"]),
            variants,
            jobs,
            meta["origin_s"],
            tuple(meta["day_ends_s"]),
            meta["first_day"],
            # Stored before machines had days: as many processors on each.
            columns.get("cpus_by_day", np.zeros(0, np.int64)).reshape(len(meta["sites"]), -1),
        )


_JOBS = tuple(GivenJobs.__dataclass_fields__)
_PAST = tuple(PastUsage.__dataclass_fields__)
_NO_INDEX = np.zeros(0, np.int64)
NO_PAST = PastUsage(_NO_INDEX, _NO_INDEX, _NO_INDEX, np.zeros(0))
