"""Kinds of rules by which a site computes components, as numbers that machine code takes.

Apart from the kernels, so that what names a kind doesn't load numba.
"""

GRIDWIDE, ABSOLUTE, RELATIVE, RELATIVE_N, SIGMOID, SIGMOID_N, SLURM, COMBINED = range(8)
