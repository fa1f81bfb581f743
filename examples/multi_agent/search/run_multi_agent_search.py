"""Evaluation of the workflow `search`: `orchestai agents evaluate` with its preset and the words given here."""

from orchestai.cli.agent_scripts import run

run("evaluate", "search")
