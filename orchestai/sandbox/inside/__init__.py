"""What runs inside the sandbox: the fork server, its slots, and the processes that hold tests and candidates.

The fork server loads this package on its own, without `orchestai` around it, so that it stays small and quick to
fork: its modules import the standard library and each other (relatively), nothing else.
"""
