"""`python scripts/collect_training_data.py ...` is `orchestai collect ...`."""

import sys

from orchestai.cli import main

main(["collect", *sys.argv[1:]])
