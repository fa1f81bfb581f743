"""Keys and values of tokens that were read: of prompts, of rows that go on, and on disk."""
