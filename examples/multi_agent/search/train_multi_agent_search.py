"""Training of the workflow `search`: `orchestai agents train` with its preset and the words given here."""

from orchestai.cli.agent_scripts import run

run("train", "search")
