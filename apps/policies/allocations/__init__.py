"""Core-hours: what a site has, what it promised to whom for which days, and how promises and shares convert."""
