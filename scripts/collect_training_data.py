"""`python scripts/collect_training_data.py ...` is `orchestai collect ...`."""

from orchestai import cli

cli.run(cli.collect)
