"""`python scripts/evaluate.py ...` is `orchestai evaluate ...`."""

import sys

from orchestai.cli import main

main(["evaluate", *sys.argv[1:]])
