"""The agent programs that ship: each a module with one workflow class."""
