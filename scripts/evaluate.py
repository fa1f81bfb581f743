"""`python scripts/evaluate.py ...` is `orchestai evaluate ...`."""

from orchestai import cli

cli.run(cli.evaluate)
