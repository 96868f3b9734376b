"""Core-hours allocated, reserved and delivered."""
