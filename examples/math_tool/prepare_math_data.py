"""`python examples/math_tool/prepare_math_data.py` is `python -m orchestai.agents.prepare math`."""

from orchestai.agents.prepare import run

run("math")
