"""Core-hours promised, kept and delivered."""
