"""Mutations that break what *Priority Operators for Fairshare Scheduling* claims."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.mutation import Mutation

_OPERATORS = "apps/engine/operators.py"
_CODECS = "apps/engine/codecs.py"
_TRIAL = "apps/engine/operator_trial.py"
_DENSITY = "apps/engine/analysis/density.py"
_JOB_SIZE = "apps/engine/analysis/job_size.py"
_RESOLUTION = "apps/engine/analysis/tree_resolution.py"
_FIGURES = "apps/contrib/lab/operators/figure_numbers.py"
_COMPARISON = "apps/pages/algorithm/comparison.py"
_SITES = "apps/contrib/lab/simulation/sites.py"

_NOT_MONOTONE = Mutation(_OPERATORS, "np.sin(np.pi / 2 * gap)", "np.sin(np.pi * gap)")
_WITHOUT_TYPICAL = Mutation(
    _JOB_SIZE,
    'TYPICAL = Reading("corrected", "smallest", "lower-third", real_states_only=False)',
    'TYPICAL = Reading("corrected", "biggest", "lower-third", real_states_only=False)',
)
_ROUNDED_UP = Mutation(
    _CODECS,
    "    scaled: FloatArray = np.add(priority, 1.0) * (resolution / 2.0)  # multiplying",
    "    scaled: FloatArray = np.add(priority, 1.0) * ((resolution - 1) / 2.0)  # multiplying",
)
_AS_EXACT = Mutation(
    _COMPARISON,
    "        by_operator = both & (exact[at] != exact[0])",
    "        by_operator = both & (ranks[at] != ranks[0])",
)
_COMBINED_POWER = Mutation(
    _OPERATORS, "(1.0 - k) * _odd_power(relative_gap(t, s), 2.0)", "(1.0 - k) * _odd_power(relative_gap(t, s), 3.0)"
)

OPERATORS: Mapping[str, tuple[Mutation, ...]] = {
    "O1": (_NOT_MONOTONE,),
    "O2": (Mutation(_OPERATORS, "off_target=lambda t, s: t - s,", "off_target=lambda t, s: (t - s) / 2,"),),
    "O3": (
        Mutation(_OPERATORS, "(target - actual) / np.maximum(target, actual)", "(target - actual) / (target + actual)"),
    ),
    "O4": (Mutation(_OPERATORS, "np.abs(gap) ** exponent, SMALLEST", "np.abs(gap) ** (1 / exponent), SMALLEST"),),
    "O5": (Mutation(_OPERATORS, "np.sin(np.pi / 2 * gap)", "np.sin(np.pi / 3 * gap)"),),
    "O6": (
        Mutation(
            _OPERATORS, "_odd_power(_sine(relative_gap(t, s)), 1.0 / n)", "_odd_power(_sine(relative_gap(t, s)), n)"
        ),
    ),
    "O7": (
        Mutation(
            _OPERATORS,
            "k * (t - s) + (1.0 - k) * _odd_power(relative_gap(t, s), 2.0)",
            "(1.0 - k) * (t - s) + k * _odd_power(relative_gap(t, s), 2.0)",
        ),
    ),
    "O8": (Mutation(_OPERATORS, "np.exp2(1.0 - s / t) - 1.0", "np.exp2(-s / t)"),),
    "O9": (Mutation(_OPERATORS, "k * (t - s) + (1.0 - k) * _odd_power", "0.9 * k * (t - s) + (1.0 - k) * _odd_power"),),
    "O10": (
        Mutation(
            _OPERATORS,
            "np.abs(target - actual) <= ON_TARGET_TOLERANCE",
            "np.abs(target - actual) < ON_TARGET_TOLERANCE",
        ),
    ),
    "O11": (Mutation(_CODECS, "SNAP = 2.0**-47", "SNAP = 0.0"),),
    "V1": (
        Mutation(
            "apps/engine/cases.py",
            "vectors.append([*vectors[above], component])",
            "vectors.append([component, *vectors[above]])",
        ),
    ),
    "V2": (
        _ROUNDED_UP,
        Mutation(
            _CODECS,
            "    width = len(str(resolution - 1))\n    padded = [*vector",
            "    width = len(str(resolution))\n    padded = [*vector",
        ),
    ),
    "V3": (_ROUNDED_UP,),
    "V4": (
        Mutation(
            _CODECS,
            "(first > second) - (first < second)",
            "(first[::-1] > second[::-1]) - (first[::-1] < second[::-1])",
        ),
    ),
    "V5": (
        Mutation(
            _CODECS,
            "[*vector, *[balance(resolution)] * (depth - len(vector))]",
            "[*vector, *[0] * (depth - len(vector))]",
        ),
    ),
    "V6": (Mutation(_CODECS, "factor[here] = prefix[here] + tail[number]", "factor[here] = prefix[here]"),),
    "D1": (
        Mutation(_DENSITY, "between + 1.0 - end", "between"),
        Mutation(
            _FIGURES,
            "density.input_density(operator, 2**bits).tolist()",
            "density.local_density(operator, 0.5, 2**bits).tolist()",
        ),
    ),
    "D2": (
        Mutation(
            _DENSITY,
            "highest_actual(operator, effective_priorities(resolution)[1:], target)",
            "highest_actual(operator, effective_priorities(resolution)[:-1], target)",
        ),
        Mutation(
            _FIGURES,
            "density.local_density(operator, target, 2**bits).tolist()",
            "density.local_density(operator, target / 2, 2**bits).tolist()",
        ),
    ),
    "D3": (Mutation(_OPERATORS, "target * (1.0 - gap), above)", "target * (1.0 - gap**2), above)"),),
    "D4": (
        Mutation(
            _OPERATORS,
            "_state_of_gap(_gap_of_sine(_odd_power(p, n)), t)",
            "_state_of_gap(_gap_of_sine(_odd_power(p, 1.0 / n)), t)",
        ),
    ),
    "D5": (
        Mutation(
            _OPERATORS,
            "(1.0 - k) * _odd_power(relative_gap(t, s), 2.0)",
            "(1.0 - k) * (np.exp2(1.0 - s / t) - 1.0)",
        ),
    ),
    "D6": (
        Mutation(_OPERATORS, "inverse=lambda p, t: t - p,", "inverse=lambda p, t: t - p * np.abs(p),"),
        Mutation(
            _OPERATORS,
            "_state_of_gap(_gap_of_sine(_odd_power(p, n)), t)",
            "_state_of_gap(_gap_of_sine(_odd_power(p, 1.0 / n)), t)",
        ),
    ),
    "J1": (Mutation(_JOB_SIZE, "rest = 1.0 - actual - step", "rest = 1.0 - actual"),),
    "J2": (
        _WITHOUT_TYPICAL,
        Mutation(_FIGURES, "fraction * query.pool_h <= query.job_h", "fraction * query.pool_h <= 4 * query.job_h"),
    ),
    "J3": (
        Mutation(_JOB_SIZE, '"lower-third": (len(by_priority) - 1) // 3', '"lower-third": (len(by_priority) - 1) // 2'),
        Mutation(_FIGURES, "None if fraction is None else fraction * query.pool_h)", "fraction)"),
    ),
    "J4": (_WITHOUT_TYPICAL,),
    "J5": (_WITHOUT_TYPICAL,),
    "A1": (Mutation(_TRIAL, "(np.diff(inner, axis=1) < 0).all()", "(np.diff(inner, axis=1) != 0).all()"),),
    "A2": (
        Mutation("apps/engine/analysis/properties.py", "return t / total if total > 0 else t", "return t"),
        Mutation(_OPERATORS, "(target - actual) / np.maximum(target, actual)", "target - actual"),
    ),
    "A3": (
        Mutation("docsite/papers/sweep.py", '"noise": NOISE[noise],', '"noise": {},'),
        Mutation("docsite/papers/sweep.py", "children = SHAPES[shape]", 'children = SHAPES["flat"]'),
        Mutation(
            "apps/contrib/lab/simulation/next_job.py",
            "value = math.pow(rule.two, 1.0 - actual / target) - 1.0 if",
            "value = 1.0 - math.pow(rule.two, 1.0 - actual / target) if",
        ),
    ),
    "A4": (
        Mutation(_SITES, '"absolute": kinds.ABSOLUTE,', '"absolute": kinds.RELATIVE,'),
        Mutation(_SITES, '"relative": kinds.RELATIVE,\n    "sig', '"relative": kinds.ABSOLUTE,\n    "sig'),
    ),
    "A5": (Mutation(_SITES, "resolution=float(resolution),", "resolution=2.0**31,"),),
    "A6": (_NOT_MONOTONE,),
    "A7": (
        Mutation(_RESOLUTION, "n_lost=int(_is_lost(exact, rounded).sum())", "n_lost=int((size[vector] > 2).sum())"),
    ),
    "A8": (_AS_EXACT,),
    "A9": (
        Mutation(_OPERATORS, "np.maximum(np.abs(gap) ** exponent, SMALLEST)", "np.abs(gap) ** exponent"),
        Mutation(_OPERATORS, "if family and int(family[2]) > MOST_N:", "if family and int(family[2]) > MOST_N**3:"),
    ),
    "A10": (_COMBINED_POWER,),
    "A12": (
        Mutation(
            "apps/contrib/lab/operators/figure_sentences.py",
            "job_size.best_first(query.invertible, region, query.reading)[0]",
            "job_size.best_first(query.invertible, region, query.reading)[-1]",
        ),
    ),
    "A13": (
        Mutation(_RESOLUTION, "(usage + job_usage) / (group + job_usage)", "(usage + job_usage) / group"),
        Mutation(_RESOLUTION, "        if _is_lost(exact, rounded).any():\n", "        if not is_same:\n"),
    ),
    "Z1": (
        Mutation(
            "apps/engine/algorithms/aequus.py",
            "scalar = np.where(target == 0, 0, np.maximum(scalar, 1))",
            "scalar = np.where((target == 0) & (actual > 0), 0, np.maximum(scalar, 1))",
        ),
    ),
    "Z3": (Mutation(_CODECS, "/ resolution * 2.0 - 1.0", "/ (resolution - 1) * 2.0 - 1.0"),),
    "Z4": (
        Mutation(_JOB_SIZE, "step = max(0.0, reach - actual)", "step = max(0.0, reach - actual) / 2"),
        Mutation(_JOB_SIZE, "step = np.maximum(reach - actual, 0.0)", "step = np.maximum(reach - actual, 0.0) / 2"),
    ),
    "Z5": (
        Mutation(
            "apps/engine/sweep.py",
            "        divisor = sums[level.parents]\n        empty",
            "        divisor = np.full(len(level.parents), sums[0])\n        empty",
        ),
    ),
    "Z10": (
        Mutation(_OPERATORS, "(target - actual) / np.maximum(target, actual)", "target - actual"),
        Mutation(_OPERATORS, "The paper (section 6) names LSF. The manuals of Maui", "The manuals of Maui"),
    ),
    "Z11": (
        Mutation("agent/orders.py", "scaled = round(factor * orders.weight)", "scaled = round(orders.weight / 2)"),
    ),
}
