"""Workers that are not models: each applies to some requests and says so where it does not."""
