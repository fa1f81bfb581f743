"""Reading tests without running them."""
