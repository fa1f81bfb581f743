"""Reading text and source code: what marks enclose, ordinals, Python's syntax."""
