"""`python train_magrpo.py --config FILE ...` is `orchestai agents train writing --config FILE ...`."""

from orchestai.cli.agent_scripts import train

train("writing")
