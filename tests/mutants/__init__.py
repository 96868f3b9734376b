"""How many mistakes the suite notices: of a sample of generated ones (`make mutants`) and of chosen ones."""
