"""A policy out of a file and into one."""
