"""The source of orders and factors and the target of reports: REST, or services on the server's own host."""

import sys
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, Optional, Sequence

from agent.orders import Orders
from agent.records import Answer, Asked, LookUp, ServerFailure

MOST_ACCOUNTS = 10_000  # accounts in a look-up
NamesOf = Callable[[Asked], Dict[str, str]]


class Source(ABC):
    """All methods raise ServerFailure with a message that says what to do."""

    @abstractmethod
    def orders(self) -> Orders:
        """The present orders for this scheduler's agent."""

    @abstractmethod
    def look_up(self, policy: str, accounts: Sequence[Dict[str, str]]) -> Any:
        """The response of `POST policies/{policy}/priorities/lookup` for at most MOST_ACCOUNTS accounts."""

    @abstractmethod
    def report(self, report: Dict[str, Any]) -> Optional[int]:
        """Send a report; return the revision of the current orders."""

    def clock_offset_s(self) -> Optional[float]:
        """Seconds that the server's clock is ahead of this host's; None if unknown."""
        return None


def look_up_all(source: Source, orders: Orders, accounts: Sequence[Asked], names_of: NamesOf) -> LookUp:
    """Look up every account once; the age is that of the oldest snapshot.

    names_of: returns names as the site has them.
    """
    answers: Dict[Asked, Answer] = {}
    snapshot: Optional[int] = None
    age_s = 0.0
    for part in parts_of(accounts):
        document = source.look_up(orders.policy, [_asked(names_of(each), orders.namespace) for each in part])
        result = read_look_up(part, document)
        answers.update(result.answers)
        snapshot, age_s = result.snapshot, max(age_s, result.age_s)
    return LookUp(snapshot, age_s, answers)


def parts_of(accounts: Sequence[Asked]) -> List[List[Asked]]:
    """Split accounts so that a look-up names each user once: results name the user, and not always the rest."""
    rounds: List[List[Asked]] = []
    n_seen: Dict[str, int] = {}
    for account in accounts:
        place = n_seen.get(account[0], 0)
        n_seen[account[0]] = place + 1
        if place == len(rounds):
            rounds.append([])
        rounds[place].append(account)
    return [each[begin : begin + MOST_ACCOUNTS] for each in rounds for begin in range(0, len(each), MOST_ACCOUNTS)]


def read_look_up(accounts: Sequence[Asked], document: Any) -> LookUp:
    """Read the results; for an account with several entries the first, which is the best.

    Raises:
        ServerFailure if the document isn't the response for these accounts.
    """
    if not isinstance(document, dict):
        raise _unreadable("it is no object")
    snapshot, results = document.get("snapshot"), document.get("results")
    age_s = _real(document.get("age_s"))
    if isinstance(snapshot, bool) or not isinstance(snapshot, int):
        raise _unreadable("snapshot is no number")
    if age_s is None or age_s < 0:
        raise _unreadable("age_s is no duration")
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise _unreadable("results are no list of objects")
    answers: Dict[str, Answer] = {}
    for result in results:
        answers.setdefault(str(result.get("account")), _read_result(result))
    if set(answers) != {asked[0] for asked in accounts}:
        raise _unreadable("results aren't of the accounts that were asked for")
    return LookUp(snapshot, age_s, {account: answers[account[0]] for account in accounts})


def _read_result(result: Dict[str, Any]) -> Answer:
    entry, error = result.get("entry"), result.get("error")
    factor = _real(result.get("factor"))
    if factor is None or not 0 <= factor <= 1:
        raise _unreadable("a factor isn't between 0 and 1")
    if error is None and not isinstance(entry, str):
        raise _unreadable("a result has neither entry nor error")
    return Answer(entry if isinstance(entry, str) else None, factor, None if error is None else str(error))


def _asked(names: Dict[str, str], namespace: Optional[str]) -> Dict[str, str]:
    return names if namespace is None else {**names, "namespace": namespace}


def _real(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        return None  # also NaN, infinity, and an integer beyond any of a double
    return float(value)


def _unreadable(why: str) -> ServerFailure:
    return ServerFailure(f"The server's look-up can't be read: {why}.")
