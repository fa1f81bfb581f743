"""`python scripts/prepare_training_data.py ...` is `orchestai prepare ...`."""

import sys

from orchestai.cli import main

main(["prepare", *sys.argv[1:]])
