"""`python examples/deepcoder/prepare_deepcoder_data.py` is `python -m orchestai.agents.prepare deepcoder`."""

from orchestai.agents.prepare import run

run("deepcoder")
