"""Tasks whose answers are programs."""
