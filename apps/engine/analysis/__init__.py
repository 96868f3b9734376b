"""What an operator, a resolution and a tree can and can't tell apart, and how fairly usage came out.

definition: boundary conditions. ordering: equivalence and proportional redistribution. density: inputs that fall on one
component. job_size: the smallest job that shows, and the bits it takes. bits, collisions: the same for a whole tree.
fairness: indices over entries.
"""
