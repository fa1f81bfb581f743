"""Commands that learn: from logged runs to a checkpoint."""
