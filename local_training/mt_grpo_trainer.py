"""`python mt_grpo_trainer.py --config FILE [--key value]...` is `orchestai agents train tool_use --config FILE ...`."""

from orchestai.agents_script import train

train("tool_use")
