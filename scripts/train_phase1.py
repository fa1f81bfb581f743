"""`python scripts/train_phase1.py ...` is `orchestai train-phase1 ...`."""

import sys

from orchestai.cli import main

main(["train-phase1", *sys.argv[1:]])
