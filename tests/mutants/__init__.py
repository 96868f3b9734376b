"""How many planted mistakes the suite notices: `make mutants` a sample of generated ones, `make planted` chosen ones."""
