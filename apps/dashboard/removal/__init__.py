"""Policies and usage sources removed, archived and restored."""
