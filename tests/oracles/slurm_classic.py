"""Slow twins of Slurm's share trees without Fair Tree: one association at a time, up the tree, in long decimals.

Written from the rules of Slurm's classic and depth-oblivious factors; nothing here knows arrays or levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

LONG = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
ZERO, ONE, TWO, FIVE = Decimal(0), Decimal(1), Decimal(2), Decimal(5)


@dataclass(eq=False)
class Association:
    """One row of sshare; `shares` None is shares=parent."""

    path: str
    kind: str | None
    shares: Decimal | None
    own: Decimal
    is_group: bool
    real_parent: Association | None
    children: list[Association] = field(default_factory=list)

    @property
    def fairshare_parent(self) -> Association:
        """The nearest real ancestor whose shares aren't parent."""
        assert self.real_parent is not None
        above = self.real_parent
        while above.shares is None and above.real_parent is not None:
            above = above.real_parent
        return above

    @property
    def raw(self) -> Decimal:
        return self.own + sum((child.raw for child in self.children), ZERO)

    def walk(self) -> Iterator[Association]:
        for child in self.children:
            yield child
            yield from child.walk()


class Sshare:
    """The numbers of every association of a case; each is worked out on first access, and kept."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.usage = {path: _decimal(amount) for path, amount in case["usage"].items()}
        self.root = self._read({**case["policy"], "shares": 1}, "", None)
        self.rows = list(self.root.walk())
        self.damping = case["algorithm"].get("damping_factor", 1)
        self.is_oblivious = case["algorithm"]["name"] == "slurm-depth-oblivious"
        self._known: dict[tuple[str, str], Decimal] = {}

    def _read(self, node: dict[str, Any], path: str, parent: Association | None) -> Association:
        shares = None if node["shares"] == "parent" else Decimal(node["shares"])
        own = self.usage.get(path or "/", ZERO)
        row = Association(path, node.get("kind"), shares, own, "children" in node, parent)
        row.children = [self._read(child, f"{path}/{child['name']}", row) for child in node.get("children", [])]
        return row

    def _once(self, what: str, row: Association, work_out: Callable[[Association], Decimal]) -> Decimal:
        key = (what, row.path)
        if key not in self._known:
            self._known[key] = work_out(row)
        return self._known[key]

    def contenders(self, parent: Association) -> list[Association]:
        """Who is listed below a fairshare parent and has shares of its own."""
        return [row for row in self.rows if row.shares is not None and row.fairshare_parent is parent]

    def level_shares(self, row: Association) -> Decimal:
        parent = row.fairshare_parent
        return self._once(
            "level", parent, lambda one: sum((each.shares or ZERO for each in self.contenders(one)), ZERO)
        )

    def norm_shares(self, row: Association) -> Decimal:
        def work_out(one: Association) -> Decimal:
            if one is self.root:
                return ONE
            above = self.norm_shares(one.fairshare_parent)
            if one.shares is None:
                return above
            level = self.level_shares(one)
            return above * one.shares / level if level else ZERO

        return self._once("norm_shares", row, work_out)

    def norm_usage(self, row: Association) -> Decimal:
        everything = self._once("raw", self.root, lambda one: one.raw)
        if not everything:
            return ZERO
        return min(ONE, self._once("raw", row, lambda one: one.raw) / everything)

    def effective_usage(self, row: Association) -> Decimal:
        return self._once("effective", row, self._effective)

    def _effective(self, row: Association) -> Decimal:
        if row is self.root:
            return ONE
        parent, used = row.fairshare_parent, self.norm_usage(row)
        if parent is self.root:
            return used
        if row.shares is None:
            return self.effective_usage(parent)
        return self._oblivious(row, parent, used) if self.is_oblivious else self._classic(row, parent, used)

    def _classic(self, row: Association, parent: Association, used: Decimal) -> Decimal:
        above, level = self.effective_usage(parent), self.level_shares(row)
        if not level:
            return above
        assert row.shares is not None
        return used + (above - used) * row.shares / level

    def _oblivious(self, row: Association, parent: Association, used: Decimal) -> Decimal:
        own, theirs, above = self.norm_shares(row), self.norm_shares(parent), self.effective_usage(parent)
        if not (own and theirs and above and used):
            return used
        of_parent = above / theirs
        of_siblings = sum((self.norm_usage(each) for each in self.contenders(parent)), ZERO) / theirs
        local = used / own / of_siblings
        k = ONE if of_parent.ln() * local.ln() >= 0 else ONE / (ONE + (FIVE * of_parent.ln()) ** 2)
        return of_parent * local**k * own

    def factor(self, row: Association) -> Decimal:
        shares = self.norm_shares(row)
        return TWO ** (-(self.effective_usage(row) / shares / self.damping)) if shares else ZERO


def solve(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What compute answers for a case of either algorithm, as doubles."""
    with localcontext(LONG):
        sshare = Sshare(case)
        nodes = {
            row.path: {
                "norm_shares": float(sshare.norm_shares(row)),
                "norm_usage": float(sshare.norm_usage(row)),
                "effective_usage": float(sshare.effective_usage(row)),
                "level_fs": None,
                "factor": None if row.kind == "reserve" else float(sshare.factor(row)),
            }
            for row in sshare.rows
        }
        users = {row.path: float(sshare.factor(row)) for row in sshare.rows if row.kind == "user" and not row.is_group}
    ranks = _ranks(users)
    return {path: {**node, "rank": ranks.get(path)} for path, node in nodes.items()}


def _decimal(amount: float | Fraction) -> Decimal:
    exact = Fraction(amount)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _ranks(factors: dict[str, float]) -> dict[str, int]:
    """1 + the users ahead. Factors are doubles, and neighbours within 1e-12 of the larger tie."""
    found: dict[str, int] = {}
    before, rank = 2.0, 1
    for place, path in enumerate(sorted(factors, key=lambda path: -factors[path]), start=1):
        rank = place if before - factors[path] > 1e-12 * before else rank
        found[path], before = rank, factors[path]
    return found
