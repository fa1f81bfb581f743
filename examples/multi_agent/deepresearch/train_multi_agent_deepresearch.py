"""Training of the workflow `deep_research`: `orchestai agents train` with its preset and the words given here."""

from orchestai.cli.agent_scripts import run

run("train", "deep_research")
