"""`python scripts/make_composition_suite.py ...` is `python -m orchestai.tasks.composition ...`."""

from orchestai.tasks.composition.__main__ import run

run()
