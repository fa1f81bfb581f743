"""What runs inside the sandbox: the fork server, its slots, and the processes that hold tests and candidates.

The fork server loads this package on its own, without `orchestai` around it, so that it stays small and quick to
fork: its modules import the standard library and each other (relatively), nothing else.
"""

from typing import Any


def words(text: str) -> frozenset[str]:
    """Names, one after the other in a text."""
    return frozenset(text.split())


AT_FORK: list[dict[str, Any]] = []
"""Arguments of `os.register_at_fork` that the program's processes are to call it with."""
MOST_WALLS = 5
"""Wall-clock limits that a program may take where a busy machine keeps it waiting: what it computes is what counts."""
AGREEING = "it rests on a function of the program's that says the same whatever it is asked"
"""What is said of a test that a helper of the program's would pass whatever came of it."""
WATCH = "__watch__"
"""What open tests call the one that they report to."""
PROGRAM = "__program__"
"""And the module of the program, in which they look for its names each time."""
