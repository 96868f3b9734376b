"""Mutations that break what the note on fair share by a priority queue claims."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.mutation import Mutation

_SAM = "apps/contrib/jobs/algorithms/sam.py"
_BENEFITS = "apps/contrib/jobs/algorithms/benefits.py"
_SIMULATION = "apps/contrib/lab/simulation/sam_queue.py"

_TIE = "return share - fraction > TIE * max(share, fraction)"

SAM: Mapping[str, tuple[Mutation, ...]] = {
    "3.1": (
        Mutation(
            _SAM,
            "goes_to_front(fraction, self.shares.get(group, 0.0)), fraction",
            "goes_to_front(fraction, max(self.shares.values())), fraction",
        ),
    ),
    "3.2": (Mutation(_SAM, _TIE, "return fraction - share > TIE * max(share, fraction)"),),
    "3.3": (Mutation(_SAM, '"notes": [NO_AGING]', '"notes": [NO_AGING.partition(".")[0]]'),),
    "3.4": (
        Mutation(_SAM, "return (received + benefit) / after", "return received / after"),
        Mutation(_SAM, _TIE, "return share - fraction >= -TIE * max(share, fraction)"),
    ),
    "3.5": (
        Mutation(
            _SAM,
            '"priority": _number(priority),\n        "fraction_after": None',
            '"priority": 2,\n        "fraction_after": None',
        ),
        Mutation(_SIMULATION, "2 + classes.index(s.priority)", "1 + len(classes) - classes.index(s.priority)"),
    ),
    "3.6": (Mutation(_SAM, "priority = classes.front if is_front else classes.back", "priority = float(is_front)"),),
    "3.7": (
        Mutation(
            _SIMULATION,
            'removes started and withdrawn jobs from the heads."""\n    for chosen in range(sam.classes - 1, -1, -1):',
            'removes started and withdrawn jobs from the heads."""\n    for chosen in range(sam.classes):',
        ),
    ),
    "3.8": (
        Mutation(
            _SAM,
            "return None if named is None else read_benefit(named)",
            'return None if named is None else read_benefit("wall_s")',
        ),
    ),
    "3.9": (Mutation(_BENEFITS, "sum(weight * benefit.of(job) for", "sum(benefit.of(job) for"),),
    "3.10": (
        Mutation(_SAM, "return _read_weights(case, name, classes)", 'return _read_weights(case, "benefit", classes)'),
    ),
    "3.11": (
        Mutation(
            _BENEFITS, '"data_gb", "Data delivered", "GB", "data_gb"', '"data_gb", "Data delivered", "GB", "mem_gb"'
        ),
    ),
    "3.12": (Mutation(_SAM, "share * self.total - after", "after - share * self.total"),),
    "3.14": (
        Mutation(
            "apps/contrib/jobs/gateway/shares.py",
            "float(self.snapshot.values.target[i]) for i, name",
            "float(self.snapshot.values.actual[i]) for i, name",
        ),
    ),
    "3.15": (
        Mutation(
            _SAM, "({where} the share of {group}, {plain(share)})", "({where} the share of {group}, {plain(fraction)})"
        ),
    ),
    "3.16": (Mutation(_SIMULATION, "prepared.spread(prepared.target_global), 0.0)", "1.0, 0.0)"),),
}
