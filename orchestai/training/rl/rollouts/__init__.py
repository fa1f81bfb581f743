"""How phase 2 gets its episodes."""
