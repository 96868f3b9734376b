"""Corrections of usage."""
