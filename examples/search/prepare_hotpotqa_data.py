"""Preparation of data: `python -m orchestai.agents.prepare hotpotqa`."""

from orchestai.agents.prepare import run

run("hotpotqa")
