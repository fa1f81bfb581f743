"""`train_magrpo.py` with one model that both agents share."""

from orchestai.agents_script import train

train("writing", "agents.policies=shared")
