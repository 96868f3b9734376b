"""What an operator, a resolution and a tree can distinguish, and how fair usage was.

properties: boundary conditions, equivalence and proportional redistribution. density: inputs that fall on one
component. job_size: the smallest job that shows, and the bits it takes. tree_resolution: bits and collisions.
fairness: indices over entries. goals: what brings an entry to its target.
"""
