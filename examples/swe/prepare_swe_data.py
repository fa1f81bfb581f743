"""`python examples/swe/prepare_swe_data.py` is `python -m orchestai.agents.prepare swe`."""

from orchestai.agents.prepare import run

run("swe")
