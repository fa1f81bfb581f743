"""Synthetic instructions with the words of their steps; some with programs and tests."""
