"""What a predictor has learned as one blob, and back, bit for bit: equal predictors give equal bytes."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

import numpy as np

from apps.contrib.starts.prediction.bases import BaseRecord
from apps.contrib.starts.prediction.calibration import Calibration
from apps.contrib.starts.prediction.predictor import MOST_RECENT_PROMISES, Predictor
from apps.contrib.starts.prediction.promises import LEVELS, Kind
from apps.contrib.starts.prediction.recent_waits import RecentWaits
from apps.contrib.starts.prediction.soon import SoonCounters
from apps.core.blobs import Column, CorruptBlob, pack, unpack

_FORMAT = 6  # of the columns: another one for other names or meanings, or other steps of what is learned
_BETWEEN = "\x1f"  # parts of a feature; no user name has it


def save(predictor: Predictor) -> tuple[bytes, str]:
    """The blob and its digest."""
    columns: dict[str, Column] = {}
    for level in range(len(LEVELS)):
        named = [
            (_BETWEEN.join((base, *feature)), offset)
            for base, calibration in sorted(predictor.calibrations.items())
            for feature, offset in sorted(calibration.offsets[level].items())
        ]
        columns[f"features{level}"] = [feature for feature, _offset in named]
        columns[f"offsets{level}"] = np.array([offset for _feature, offset in named], np.float64)
    losses = sorted(predictor.record.losses.items())
    columns["loss_of"] = [_BETWEEN.join((kind, str(day), base)) for (kind, day, base), _sums in losses]
    columns["losses"] = np.array([sums for _key, sums in losses], np.float64).reshape(len(losses), 2)
    waits = predictor.waits.known()
    columns["classes"] = [" ".join(map(str, key)) for key in waits]
    columns["n_waits"] = np.array([len(each) for each in waits.values()], np.int64)
    columns["waits"] = np.array([wait for each in waits.values() for wait in each], np.float64)
    bursts = sorted((burst, n) for burst, n in predictor.n_of_burst.items() if n)
    columns["burst_kind"] = [kind for (kind, _user, _hour), _n in bursts]
    columns["burst_user"] = [user for (_kind, user, _hour), _n in bursts]
    columns["burst_hour"] = np.array([hour for (_kind, _user, hour), _n in bursts], np.int64)
    columns["burst_n"] = np.array([n for _burst, n in bursts], np.int64)
    soon = sorted(predictor.soon.counts.items())
    columns["soon"] = np.array(
        [(size, others_wait, starts, jobs) for (size, others_wait), (starts, jobs) in soon], np.float64
    ).reshape(len(soon), 4)
    columns["soon_of_all"] = np.array(predictor.soon.of_all, np.float64)
    for kind, recent in predictor.recent.items():
        columns[f"recent_{kind}"] = np.array(recent, np.uint8)
    n_open = [[predictor.n_open[kind, level] for level in range(len(LEVELS))] for kind in Kind]
    ranks = {str(kind): list(bases) for kind, bases in sorted(predictor.record.ranks.items())}
    meta = {
        "format": _FORMAT,
        "n_open": n_open,
        "newest_hour": predictor.newest_hour,
        "ranks": ranks,
        "day": predictor.record.day,
        "weights": {str(kind): weight for kind, weight in predictor.record.weights.items()},
        "ranked": {str(kind): weight for kind, weight in predictor.record.ranked.items()},
    }
    return pack(columns, meta)


def load(data: bytes | memoryview, digest: str) -> Predictor:
    """The predictor of a blob.

    Raises:
        CorruptBlob: the bytes don't have that digest, or are of another format.
    """
    columns, meta = unpack(data, digest)
    if meta.get("format") != _FORMAT:
        raise CorruptBlob(f"It has the format {meta.get('format')}, and not {_FORMAT}.")
    calibrations: defaultdict[str, Calibration] = defaultdict(Calibration)
    for level in range(len(LEVELS)):
        named = zip(columns[f"features{level}"], columns[f"offsets{level}"].tolist(), strict=True)
        for joined, offset in named:
            base, *feature = joined.split(_BETWEEN)
            calibrations[base].offsets[level][tuple(feature)] = offset
    losses: dict[tuple[Kind, int, str], tuple[float, float]] = {}
    for joined, (loss, weight) in zip(columns["loss_of"], columns["losses"].tolist(), strict=True):
        kind_of, day, base = joined.split(_BETWEEN)
        losses[Kind(kind_of), int(day), base] = loss, weight
    ranks = {Kind(kind): tuple(bases) for kind, bases in meta["ranks"].items()}
    weights = ({Kind(kind): weight for kind, weight in meta[name].items()} for name in ("weights", "ranked"))
    ends = np.cumsum(columns["n_waits"]).tolist()
    parts = [columns["waits"][end - n : end] for end, n in zip(ends, columns["n_waits"].tolist(), strict=True)]
    waits = {tuple(map(int, key.split())): part.tolist() for key, part in zip(columns["classes"], parts, strict=True)}
    bursts = zip(columns["burst_kind"], columns["burst_user"], columns["burst_hour"].tolist(), strict=True)
    n_of_burst = Counter(
        {(kind, user, hour): n for (kind, user, hour), n in zip(bursts, columns["burst_n"].tolist(), strict=True)}
    )
    n_open = Counter(
        {(kind, level): n for kind, row in zip(Kind, meta["n_open"], strict=True) for level, n in enumerate(row) if n}
    )
    soon = {(int(size), bool(wait)): (starts, jobs) for size, wait, starts, jobs in columns["soon"].tolist()}
    starts_of_all, jobs_of_all = columns["soon_of_all"].tolist()
    recent = {kind: deque(map(bool, columns[f"recent_{kind}"].tolist()), maxlen=MOST_RECENT_PROMISES) for kind in Kind}
    return Predictor(
        recent=recent,
        calibrations=calibrations,
        record=BaseRecord(losses, ranks, meta["day"], *weights),
        waits=RecentWaits(waits),
        soon=SoonCounters(soon, (starts_of_all, jobs_of_all)),
        n_of_burst=n_of_burst,
        n_open=n_open,
        newest_hour=meta["newest_hour"],
    )
