"""Preparation of data: `python -m orchestai.agents.prepare deepcoder`."""

from orchestai.agents.prepare import run

run("deepcoder")
