"""`train_magrpo.py` with one model that both agents share."""

import sys

from orchestai import cli

sys.argv[1:1] = ["agents", "train", "writing", "agents.policies=shared"]
cli.main()
