"""Evaluation of the workflow `search`: `orchestai agents evaluate` with its preset and the words given here."""

from orchestai.agents_script import run

run("evaluate", "search")
