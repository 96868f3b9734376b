"""Analysis of fairshare operators and resolutions: the operators paper's figures, and their effect on
a policy's tree.
"""
