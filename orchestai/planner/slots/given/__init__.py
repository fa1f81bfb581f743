"""Plans whose steps the instruction lists already: only their edges are predicted."""
