"""Choosing workers, replayed on outcome tables. See docs/tables.md."""
