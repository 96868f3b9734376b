"""What the site last said, kept on disk: the orders, and the factor of each account with its age.

While the site is away, a new job gets its first value from it. No factor is used that is older than the owner of the
scheduler allows (`snapshot_age_s`), nor one of the future, where the clock of this host went back.
"""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from agent.files import replace_file
from agent.orders import Limits, Orders
from agent.records import Answer, Asked, LookUp

FILE = "last-known.json"
MOST_ACCOUNTS = 100_000
MOST_AHEAD_S = 60.0
# Accounts without a waiting job: they may submit the next one while the site is away.
OTHERS_EVERY_S = 300.0
MOST_OTHERS = 2_000
LONGEST_WITHOUT_JOBS_S = 7 * 86_400.0


class Known(NamedTuple):
    """as_of: when the numbers behind the answer were computed; seen_at: when the account last had a waiting job."""

    answer: Answer
    as_of: float
    seen_at: float


class LastKnown:
    """folder: the agent's own; what can't be read there is unknown."""

    def __init__(self, folder: str) -> None:
        self.orders: Optional[Orders] = None
        self.snapshot: Optional[int] = None
        self._path = os.path.join(folder, FILE)
        self._known: Dict[Asked, Known] = {}
        self._load()

    def others(self, asked: Sequence[Asked], now: float) -> List[Asked]:
        """Accounts to look up beside those of waiting jobs, those that waited last first."""
        with_jobs = set(asked)
        due = [
            (-known.seen_at, each)
            for each, known in self._known.items()
            if each not in with_jobs
            and now - known.seen_at < LONGEST_WITHOUT_JOBS_S
            and not 0 <= now - known.as_of < OTHERS_EVERY_S
        ]
        return [each for _, each in sorted(due)[:MOST_OTHERS]]

    def take_orders(self, orders: Orders) -> None:
        """Keep the orders: while the site is away, nothing is set where they were not to send. Raises: OSError."""
        plain = orders._replace(share_order=None, limit_order=None)
        if plain != self.orders:
            self.orders = plain
            self._save()

    def take(self, looked_up: LookUp, asked: Sequence[Asked], now: float) -> None:
        """Keep answers. asked: accounts of waiting jobs. Raises: OSError."""
        with_jobs = set(asked)
        as_of = now - looked_up.age_s
        for each, answer in looked_up.answers.items():
            before = self._known.get(each)
            seen_at = now if each in with_jobs or before is None else before.seen_at
            self._known[each] = Known(answer, as_of, seen_at)
        if len(self._known) > MOST_ACCOUNTS or any(
            now - known.seen_at >= LONGEST_WITHOUT_JOBS_S for known in self._known.values()
        ):
            last = sorted(self._known.items(), key=lambda each: -each[1].seen_at)[:MOST_ACCOUNTS]
            self._known = {each: known for each, known in last if now - known.seen_at < LONGEST_WITHOUT_JOBS_S}
        self.snapshot = looked_up.snapshot
        self._save()

    def usable(self, limit_s: float, now: float) -> Dict[Asked, Known]:
        """Answers that are not older than `limit_s` at `now`."""
        return {each: known for each, known in self._known.items() if -MOST_AHEAD_S <= now - known.as_of <= limit_s}

    # --- File
    def _save(self) -> None:
        rows = [[*each, *known.answer, known.as_of, known.seen_at] for each, known in self._known.items()]
        orders = None if self.orders is None else {**self.orders._asdict(), "limits": self.orders.limits._asdict()}
        document = {"orders": orders, "snapshot": self.snapshot, "rows": rows}
        replace_file(self._path, json.dumps(document, separators=(",", ":")).encode("ascii"))

    def _load(self) -> None:
        try:
            with open(self._path, encoding="ascii") as file:
                document = json.load(file)
            orders = _orders(document["orders"])
            rows = {tuple(row[:3]): Known(Answer(*row[3:6]), float(row[6]), float(row[7])) for row in document["rows"]}
            snapshot = document["snapshot"]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return
        self.orders, self.snapshot = orders, snapshot
        self._known = {(str(user), str(group), str(at)): known for (user, group, at), known in rows.items()}


def _orders(document: Any) -> Orders:
    partitions = document["partitions"]
    return Orders(
        **{
            **document,
            "partitions": None if partitions is None else tuple(partitions),
            "limits": Limits(**document["limits"]),
        }
    )
