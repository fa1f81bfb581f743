"""Commands that put a planner to work, and let it learn on."""
