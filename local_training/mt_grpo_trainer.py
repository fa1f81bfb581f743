"""`python mt_grpo_trainer.py --config FILE [--key value]...` is `orchestai agents train tool_use --config FILE ...`."""

from orchestai.cli.agent_scripts import train

train("tool_use")
