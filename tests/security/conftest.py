"""Tests of what attackers tried."""
