"""Where the checkout is."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def importing() -> dict[str, str]:
    """Environment of a Python that is to find the package and `support`."""
    given = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests"), *given])}
