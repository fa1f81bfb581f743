"""Evaluation of the workflow `swe`: `orchestai agents evaluate` with its preset and the words given here."""

from orchestai.cli.agent_scripts import run

run("evaluate", "swe")
