"""Questions with short answers."""
