"""`python scripts/train_phase1.py ...` is `orchestai train-phase1 ...`."""

from orchestai import cli

cli.run(cli.train_phase1)
