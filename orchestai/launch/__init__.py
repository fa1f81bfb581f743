"""Starts trainings on machines of others."""
