"""Runs in OpenAI's formats, whole and as streams."""
