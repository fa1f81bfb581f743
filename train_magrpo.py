"""`python train_magrpo.py --config FILE ...` is `orchestai agents train writing --config FILE ...`."""

from orchestai.agents_script import train

train("writing")
