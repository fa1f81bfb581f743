"""The command line: `orchestai COMMAND`."""

from orchestai.cli.application import app, main

__all__ = ["app", "main"]
