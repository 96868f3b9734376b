"""What an operator, a resolution and a tree can distinguish, and the change that brings an entry to its target.

properties: boundary conditions, equivalence and proportional redistribution; inputs that fall on one component.
job_size: the smallest job that shows, and the bits it takes. tree_resolution: bits and collisions. goals: what brings
an entry to its target.
"""
