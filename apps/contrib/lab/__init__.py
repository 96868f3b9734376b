"""Trials that change no policy: simulated sites, and operators and resolutions on a policy's tree."""
