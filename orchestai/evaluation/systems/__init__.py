"""Planners and baselines, compared on the same tasks."""
