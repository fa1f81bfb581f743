"""Phase 1: supervised learning from plans."""
