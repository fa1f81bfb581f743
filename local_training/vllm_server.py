"""`python vllm_server.py --config FILE [--key value]...`: the server that `mt_grpo_trainer.py` asks, given the same."""

from orchestai.cli.agent_scripts import serve

serve()
