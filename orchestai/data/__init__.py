"""Training data: collected from executions, or read from other sources."""
