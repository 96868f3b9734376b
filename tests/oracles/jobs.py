"""Slow readable twins of the job algorithms, written from the rules in exact fractions."""

from __future__ import annotations

from fractions import Fraction


def sam_queue(
    shares: dict[str, int],
    benefit: dict[str, int],
    priority_groups: set[str],
    jobs: list[tuple[str, int]],
    *,
    is_booked: bool,
) -> list[tuple[str, Fraction | None]]:
    """Queue and exact fraction of each job: front iff the group's part with this job is smaller than its share."""
    books = {group: Fraction(amount) for group, amount in benefit.items() if group not in priority_groups}
    weights = {group: Fraction(share) for group, share in shares.items() if group not in priority_groups}
    answers: list[tuple[str, Fraction | None]] = []
    for group, amount in jobs:
        if group in priority_groups:
            answers.append(("priority", None))
            continue
        with_it = books | {group: books.get(group, Fraction(0)) + amount}
        whole = sum(with_it.values())
        fraction = with_it[group] / whole if whole else Fraction(1)
        share = weights.get(group, Fraction(0)) / sum(weights.values()) if any(weights.values()) else Fraction(0)
        answers.append(("front" if fraction < share else "back", fraction))
        if is_booked:
            books = with_it
    return answers


def slurm_priority(weights: dict[str, int], factors: dict[str, Fraction], site: int, nice: int) -> int:
    """Σ weight · factor + site − nice, cut, within 1..2^32 − 1."""
    exact = sum((weights[name] * factors.get(name, Fraction(0)) for name in weights), Fraction(site - nice))
    return int(max(Fraction(1), min(exact, Fraction(2**32 - 1))))


def htcondor_priority(before: Fraction, cores: Fraction, factor: int, half_lives: int) -> Fraction:
    """Effective priority after whole half-lives in which the cores were in use."""
    real, left = max(before, Fraction(1, 2)), Fraction(1, 2**half_lives)
    return max(left * real + (1 - left) * cores, Fraction(1, 2)) * factor
