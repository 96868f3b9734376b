"""All mutations, by the claim of docs/appendices/papers.md that they break."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.depth_oblivious import DEPTH_OBLIVIOUS
from tests.papers.mutations.gridengine import GRID_ENGINE
from tests.papers.mutations.gridwide import GRIDWIDE
from tests.papers.mutations.mutation import Mutation
from tests.papers.mutations.operators import OPERATORS
from tests.papers.mutations.sam import SAM

MUTATIONS: Mapping[str, tuple[Mutation, ...]] = {**OPERATORS, **DEPTH_OBLIVIOUS, **GRID_ENGINE, **SAM, **GRIDWIDE}
