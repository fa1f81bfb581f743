"""Frozen encoders: of instructions and worker cards, of steps, and of whole sentences."""
