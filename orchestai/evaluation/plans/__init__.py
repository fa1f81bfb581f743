"""Plans beside reference plans: nodes, edges and order."""
