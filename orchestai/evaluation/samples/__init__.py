"""Samples of programs, judged by their tasks' tests."""
