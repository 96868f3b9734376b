"""Jobs of a listing or a case, taken apart."""
