"""Training of the workflow `search`: `orchestai agents train` with its preset and the words given here."""

from orchestai.agents_script import run

run("train", "search")
