"""What a worker will probably achieve and cost on a query, learned from all attempts. See docs/estimate.md."""
