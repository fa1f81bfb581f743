"""Choosing workers, replayed on outcome tables. See docs/data/tables.md."""
