"""From resources to usage: metric, decay, charge of a job. Pure."""
