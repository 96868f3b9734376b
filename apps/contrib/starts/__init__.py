"""When waiting jobs start: promises with a probability, and the record of how often they held."""
