"""`python mt_grpo_trainer.py --config FILE ...` is `orchestai agents train tool_use --config FILE ...`."""

import sys

from orchestai import cli

sys.argv[1:1] = ["agents", "train", "tool_use"]
cli.main()
