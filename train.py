"""`python train.py [KEY=VALUE]...`: phase 2 on BigCodeBench, from a preset. See docs/bigcodebench.md."""

import sys

from orchestai.cli import main

main(["train", *sys.argv[1:]])
