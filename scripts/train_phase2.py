"""`python scripts/train_phase2.py ...` is `orchestai train-phase2 ...`."""

import sys

from orchestai.cli import main

main(["train-phase2", *sys.argv[1:]])
