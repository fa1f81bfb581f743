"""`python scripts/train_phase2.py ...` is `orchestai train-phase2 ...`."""

from orchestai import cli

cli.run(cli.train_phase2)
