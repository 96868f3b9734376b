"""All claims of the five papers, by the names that marks of tests have."""

from __future__ import annotations

from collections.abc import Mapping

from docsite.papers.claim import Claim
from docsite.papers.depth_claims import DEPTH_OBLIVIOUS
from docsite.papers.gridengine_claims import GRID_ENGINE
from docsite.papers.gridwide_claims import GRIDWIDE
from docsite.papers.operators_claims import OPERATORS
from docsite.papers.sam_claims import SAM

PAPERS = (OPERATORS, DEPTH_OBLIVIOUS, GRID_ENGINE, SAM, GRIDWIDE)
CLAIMS: Mapping[str, Claim] = {name: claim for paper in PAPERS for name, claim in paper.claims.items()}
