"""`python scripts/prepare_training_data.py ...` is `orchestai prepare ...`."""

from orchestai import cli

cli.run(cli.prepare)
