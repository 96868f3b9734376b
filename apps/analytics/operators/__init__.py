"""Operators and resolution: what each operator distinguishes, and what a resolution does to a policy's tree."""
