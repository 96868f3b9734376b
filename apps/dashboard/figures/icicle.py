"""A whole tree from left to right: one column a level, height the part of the whole, seven steps of colour.

Numbers in, drawing out. Drawn for the width it gets, never scaled, so that letters stay their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.dashboard.figures.bullet import Tolerance

WIDE, MIDDLE, NARROW = 840, 500, 358
HEIGHTS = {WIDE: 690, MIDDLE: 690, NARROW: 560}
LEVELS = {WIDE: 5, MIDDLE: 4, NARROW: 4}
_PARTS = {WIDE: (96, 120, 196, 184, 244), MIDDLE: (60, 110, 160, 170), NARROW: (34, 70, 126, 128)}
_NAME_HEIGHT, _BALANCE_HEIGHT, _BALANCE_WIDTH = 15.0, 40.0, 120.0
_SMALLEST = 4.0  # lower ones are drawn together
_CHARACTER = 6.6
SHAPES = {"over": "▲", "under": "▼"}


@dataclass
class Node:
    """One entry, or some that are told together; `size` is its part of the whole 0..1, children keep their order."""

    key: str
    name: str
    size: float
    points: float | None  # of the parent, over positive; None: not known
    state: str
    words: str  # its balance in words
    label: str
    url: str
    slack_points: float = 0.5
    children: list[Node] = field(default_factory=list)
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Sector:
    """A rectangle with what is written in it, in pixels."""

    key: str
    x: float
    y: float
    width: float
    height: float
    step: str
    label: str
    url: str
    name: str = ""
    name_y: float = 0.0
    words: str = ""
    words_x: float = 0.0
    words_y: float = 0.0
    is_beside: bool = False
    is_turned: bool = False
    is_chosen: bool = False


@dataclass(frozen=True)
class Icicle:
    width: int
    height: int
    sectors: tuple[Sector, ...]

    @property
    def chosen(self) -> Sector | None:
        return next((sector for sector in self.sectors if sector.is_chosen), None)


def step_of(points: float | None, state: str, slack_points: float) -> str:
    """One of the seven steps by the distance from the target in points, or what has no distance."""
    if points is None or state == "unknown":
        return "none"
    if state == "idle":
        return "idle"
    if abs(points) <= slack_points * (1 + 1e-9):
        return "lv"
    size = 1 if abs(points) <= 5 else 2 if abs(points) < 12 else 3
    return f"{'o' if points > 0 else 'u'}{size}"


def slack_of(target: float, tolerance: Tolerance) -> float:
    return tolerance.around(target) * 100


def draw(root: Node, *, width: int) -> Icicle:
    """The root fills the height; each level below divides its parent's by size."""
    height, columns = HEIGHTS[width], _columns(width, _depth(root))
    lefts = [sum(columns[:level]) for level in range(len(columns) + 1)]
    sectors: list[Sector] = []
    waiting: list[tuple[Node, int, float, float]] = [(root, 0, 0.0, float(height))]
    while waiting:
        node, level, top, tall = waiting.pop()
        sectors.append(_sector(node, lefts[level], top, columns[level], tall, is_turned=level == 0 and width == NARROW))
        if level + 1 < len(columns) and node.children:
            waiting += reversed(list(_below(node, level + 1, top, tall)))
    return Icicle(width, height, tuple(sectors))


def _depth(node: Node) -> int:
    return 1 + max((_depth(child) for child in node.children), default=0)


def _columns(width: int, depth: int) -> list[float]:
    """How wide each level is: with fewer levels than there is place for, those below the first share what is left."""
    parts = _PARTS[width][: max(depth, 1)]
    first, rest = parts[0], parts[1:]
    if not rest:
        return [float(width)]
    return [float(first), *(round(part * (width - first) / sum(rest), 1) for part in rest)]


def _below(node: Node, level: int, top: float, tall: float) -> list[tuple[Node, int, float, float]]:
    """Children from top to bottom; what is too low to be seen is left out, and its height stays empty."""
    whole = max(sum(child.size for child in node.children), node.size) or 1.0
    placed, y = [], top
    for child in node.children:
        high = tall * child.size / whole
        if high >= _SMALLEST:
            placed.append((child, level, y, high))
        y += high
    return placed


def _sector(node: Node, x: float, y: float, width: float, height: float, *, is_turned: bool) -> Sector:
    step = step_of(node.points, node.state, node.slack_points)
    has_name = height >= _NAME_HEIGHT or is_turned
    below = height >= _BALANCE_HEIGHT and not is_turned and bool(node.words)
    beside = has_name and not below and width >= _BALANCE_WIDTH and node.state in SHAPES and not is_turned
    words = node.words if below else _short(node) if beside else ""
    room = width - 16 - (46 if beside else 0)
    middle = y + height / 2 + 4
    return Sector(
        key=node.key, x=round(x, 1), y=round(y, 1), width=width, height=round(height, 1), step=step,
        label=node.label, url=node.url, is_turned=is_turned, is_chosen=node.is_chosen,
        name=_fit(node.name, height - 20 if is_turned else room) if has_name else "",
        name_y=round(y + 18 if below else middle, 1),
        words=words,
        words_x=round(x + width - 8 if beside else x + 8, 1),
        words_y=round(y + 34 if below else middle, 1),
        is_beside=beside,
    )  # fmt: skip


def _short(node: Node) -> str:
    return f"{SHAPES[node.state]} {abs(node.points or 0.0):.1f}"


def _fit(name: str, room: float) -> str:
    """As much of a name as there is place for."""
    most = int(room / _CHARACTER)
    if len(name) <= most:
        return name
    return f"{name[: most - 1]}…" if most > 3 else ""


def bounded(children: Sequence[Node], *, most: int, together: Node | None) -> list[Node]:
    """The largest ones in their order, and the rest as one."""
    if len(children) <= most or together is None:
        return list(children)
    kept = set(sorted(range(len(children)), key=lambda i: -children[i].size)[: most - 1])
    return [*(child for i, child in enumerate(children) if i in kept), together]
