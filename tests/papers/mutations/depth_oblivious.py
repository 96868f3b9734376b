"""Mutations that break what the manual of the depth-oblivious factor claims."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.mutation import Mutation

_DEPTH = "apps/engine/algorithms/slurm_depth_oblivious.py"
_CLASSIC = "apps/engine/algorithms/slurm_classic.py"
_INPUTS = "apps/engine/algorithms/inputs.py"

_EXPONENT = Mutation(_DEPTH, "(5.0 * log_R_parent) ** 2", "(4.0 * log_R_parent) ** 2")

DEPTH_OBLIVIOUS: Mapping[str, tuple[Mutation, ...]] = {
    "F1": (_EXPONENT,),
    "F2": (
        Mutation(
            _DEPTH,
            "                effective[here] = U\n                continue",
            "                effective[here] = np.sqrt(U)\n                continue",
        ),
    ),
    "F3": (_EXPONENT,),
    "F4": (
        Mutation(_DEPTH, "UE = UE_parent * target[here] * r_to_k", "UE = S_parent * target[here] * r_to_k"),
        Mutation("apps/explain/levels.py", "(above - ratio) / damping", "(ratio - above) / damping"),
    ),
    "F5": (Mutation(_DEPTH, "ratio = effective / shares", "ratio = effective / target"),),
    "F6": (
        Mutation("apps/engine/analysis/properties.py", "(5.0 * np.log(parent_ratio))", "(4.0 * np.log(parent_ratio))"),
        Mutation(
            "apps/contrib/lab/operators/figure_numbers.py",
            "above, float(k.values[i]), view.tree.path(i)",
            "above, float(local.values[i]), view.tree.path(i)",
        ),
    ),
    "F7": (Mutation("apps/engine/decay_functions.py", "SLURM_LN2 = 0.693", "SLURM_LN2 = math.log(2)"),),
    "F8": (
        Mutation(
            "apps/priorities/slurm_config.py",
            'if "NO_FAIR_TREE" in flags or ("FAIR_TREE" not in flags and _is_before_fair_tree(config)):',
            'if "NO_FAIR_TREE" in flags or _is_before_fair_tree(config):',
        ),
    ),
    "F9": (
        Mutation(_INPUTS, "np.where(S > 0, F, 0.0)", "np.where(S > 0, F, 1.0)"),
        Mutation(
            _DEPTH, "effective[here] = np.where(applies, UE, U)", "effective[here] = np.where(applies, UE, UE_parent)"
        ),
    ),
    "F10": (Mutation(_CLASSIC, "UE = U + (UE_parent - U) * target[here]", "UE = U"),),
    "F12": (
        Mutation(_DEPTH, "is_same_side = log_R_parent * log_r >= 0", "is_same_side = log_R_parent * log_r == 0"),
        Mutation(_DEPTH, "((R_parent > 1) != (local > 1))", "((R_parent > 1) == (local > 1))"),
    ),
}
