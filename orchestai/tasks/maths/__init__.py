"""Mathematical questions with a reference answer."""
