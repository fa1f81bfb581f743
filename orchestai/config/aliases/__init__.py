"""Short words and other programs' keys, as overrides of ours: one way to read them, for all tables of aliases."""

from orchestai.config.aliases.table import (
    Aliases,
    Meaning,
    as_processes,
    flags_as_words,
    override,
    processes,
    split,
    whole_number,
)

__all__ = ["Aliases", "Meaning", "as_processes", "flags_as_words", "override", "processes", "split", "whole_number"]
