"""Analysis of what an operator, a resolution and a tree can distinguish.

properties: boundary conditions, equivalence, proportional redistribution, density of inputs. job_size: the smallest job
that changes a component, and the bits that a job needs. tree_resolution: bits and collisions.
"""
