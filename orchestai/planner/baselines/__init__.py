"""Planners that do not learn."""
