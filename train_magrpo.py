"""`python train_magrpo.py --config FILE ...` is `orchestai agents train writing --config FILE ...`."""

import sys

from orchestai import cli

sys.argv[1:1] = ["agents", "train", "writing"]
cli.main()
