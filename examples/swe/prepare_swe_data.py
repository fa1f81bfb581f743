"""Preparation of data: `python -m orchestai.agents.prepare swe`."""

from orchestai.agents.prepare import run

run("swe")
