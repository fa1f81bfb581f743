"""`python train.py [KEY=VALUE]...`: phase 2 on BigCodeBench, from a preset. See docs/bigcodebench.md."""

from orchestai import cli

cli.run(cli.train)
