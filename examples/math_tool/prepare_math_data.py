"""Preparation of data: `python -m orchestai.agents.prepare math`."""

from orchestai.agents.prepare import run

run("math")
