"""`train_magrpo.py` with one model that both agents share."""

from orchestai.cli.agent_scripts import train

train("writing", "agents.policies=shared")
