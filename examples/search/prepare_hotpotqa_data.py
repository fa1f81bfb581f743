"""`python examples/search/prepare_hotpotqa_data.py` is `python -m orchestai.agents.prepare hotpotqa`."""

from orchestai.agents.prepare import run

run("hotpotqa")
