"""The almanac suite: questions about a made-up country, answered from the pages of its almanac."""
