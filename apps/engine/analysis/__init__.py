"""What an operator, a resolution and a tree can distinguish, and how fair usage was.

definition: boundary conditions. ordering: equivalence and proportional redistribution. density: inputs that fall on one
component. job_size: the smallest job that shows, and the bits it takes. bits, collisions: of a whole tree.
fairness: indices over entries.
"""
