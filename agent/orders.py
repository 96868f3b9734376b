"""The server's orders, checked field by field, and the value of a factor under them."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

from agent import names
from agent.limits import LimitOrder, read_limit_order
from agent.records import ServerFailure
from agent.shares import ShareOrder, read_order

KNOBS = {
    "slurm": ("sitefactor", "nice", "priority"),
    "gridengine": ("override_tickets", "priority"),
    "htcondor": ("priority_factor",),
}
MODES = ("off", "shadow", "canary", "on")
CARRIES = ("priorities", "shares", "limits")
BOUNDS = {  # smallest and largest value that the scheduler accepts
    ("slurm", "sitefactor"): (-2147483645, 2147483645),
    ("slurm", "nice"): (-2147483645, 2147483645),
    ("slurm", "priority"): (1, 4294967293),
    ("gridengine", "override_tickets"): (0, 2147483647),
    ("gridengine", "priority"): (-1023, 1024),
    ("htcondor", "priority_factor"): (1_000_000, 2147483645_000_000),  # millionths
}


class Limits(NamedTuple):
    snapshot_age_s: float
    unmapped_percent: float
    changed_percent: float
    calls_per_s: float
    updates_per_min: float = float("inf")  # jobs changed a minute; a server of an older release sets no bound


class Orders(NamedTuple):
    name: str
    policy: str
    kind: str
    namespace: Optional[str]
    partitions: Optional[Tuple[str, ...]]
    subtree: str
    knob: str
    weight: int
    step: int
    mode: str
    canary_partition: Optional[str]
    every_s: float
    limits: Limits
    paused: bool
    reset_values: bool
    revision: int
    carries: str = "priorities"
    share_order: Optional[ShareOrder] = None
    limit_order: Optional[LimitOrder] = None
    takes_accounts: bool = False  # whether the server takes accounts and users beside priorities; older ones may not
    lists_priorities: bool = False  # whether the server takes several priorities of a job; older releases refuse them
    takes_queue_state: bool = False  # whether the server takes running jobs and capacity; older releases refuse them
    resumes: int = 0  # how often the scheduler was resumed: a rise accepts any change of values once

    @property
    def sends(self) -> bool:
        """Whether job priorities are sent."""
        return (
            self.carries == "priorities" and self.mode in ("canary", "on") and not self.paused and not self.reset_values
        )

    @property
    def sets_shares(self) -> bool:
        return self.carries == "shares" and self.mode == "on" and not self.paused and not self.reset_values


def value_of(orders: Orders, factor: float) -> int:
    """The knob's value for a factor in [0, 1]. Raises: ValueError outside the scheduler's range."""
    scaled = round(factor * orders.weight)
    if orders.knob == "nice":
        value = orders.weight - scaled  # never negative, so that an operator is needed only for lowering it again
    elif orders.knob == "priority_factor":
        value = round(1e6 * orders.weight ** (1.0 - factor))  # equal steps of the factor are equal ratios
    elif orders.knob == "priority":
        value = 1 + scaled if orders.kind == "slurm" else round(-1023 + factor * 2047)
    else:
        value = scaled
    least, most = BOUNDS[orders.kind, orders.knob]
    if not least <= value <= most:
        raise ValueError(f"{orders.knob} {value} is outside {least} to {most}")
    return value


def read_orders(document: Any) -> Orders:
    """Read the orders. Raises: ServerFailure naming the first invalid field."""
    fields = _Fields(document)
    kind = fields.choice("kind", tuple(KNOBS))
    orders = Orders(
        name=fields.text("name"),
        policy=fields.text("policy"),
        kind=kind,
        namespace=fields.text_or_none("namespace"),
        partitions=fields.partitions("partitions"),
        subtree=fields.text("subtree"),
        knob=fields.choice("knob", KNOBS[kind]),
        weight=int(fields.number("weight", 1, 2147483645)),
        step=int(fields.number("step", 1, 2147483645)),
        mode=fields.choice("mode", MODES),
        canary_partition=fields.text_or_none("canary_partition"),
        every_s=fields.number("every_s", 1, 86400),
        limits=_limits(document.get("limits")),
        paused=fields.flag("paused"),
        reset_values=fields.flag("reset_values"),
        revision=int(fields.number("revision", 0, 2**53)),
        carries=fields.choice("carries", CARRIES) if "carries" in document else CARRIES[0],
        share_order=read_order(document.get("share_order")),
        limit_order=read_limit_order(document.get("limit_order")),
        takes_accounts="follows" in document,
        lists_priorities=fields.flag("lists_priorities") if "lists_priorities" in document else False,
        takes_queue_state=fields.flag("takes_queue_state") if "takes_queue_state" in document else False,
        resumes=int(fields.number("resumes", 0, 2**31)) if "resumes" in document else 0,
    )
    if not names.SLUG.fullmatch(orders.policy):
        raise _wrong("policy")
    if not orders.subtree.startswith("/"):
        raise _wrong("subtree")
    if orders.mode == "canary" and orders.carries != "limits" and not orders.canary_partition:
        raise _wrong("canary_partition")
    return orders


def _limits(document: Any) -> Limits:
    fields = _Fields(document)
    return Limits(
        snapshot_age_s=fields.number("snapshot_age_s", 0, 1e9),
        unmapped_percent=fields.number("unmapped_percent", 0, 100),
        changed_percent=fields.number("changed_percent", 0, 100),
        calls_per_s=fields.number("calls_per_s", 0.01, 1000),
        **({"updates_per_min": fields.number("updates_per_min", 1, 1e9)} if "updates_per_min" in document else {}),
    )


def _wrong(field: str) -> ServerFailure:
    return ServerFailure(f"The orders can't be read: {field} is missing or wrong. Are agent and server of one release?")


class _Fields:
    """Reads fields of a document; raises ServerFailure with the field's name."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise _wrong("the document")
        self._document: Dict[str, Any] = document

    def text(self, name: str) -> str:
        value = self._document.get(name)
        if not isinstance(value, str) or not value or len(value) > 1000:
            raise _wrong(name)
        return value

    def text_or_none(self, name: str) -> Optional[str]:
        return None if self._document.get(name) in (None, "") else self.text(name)

    def choice(self, name: str, choices: Tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in choices:
            raise _wrong(name)
        return value

    def flag(self, name: str) -> bool:
        value = self._document.get(name)
        if not isinstance(value, bool):
            raise _wrong(name)
        return value

    def number(self, name: str, least: float, most: float) -> float:
        value = self._document.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise _wrong(name)  # also NaN and infinity
        return value

    def partitions(self, name: str) -> Optional[Tuple[str, ...]]:
        value = self._document.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise _wrong(name)
        return tuple(value)
