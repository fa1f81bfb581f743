"""Coroutines and blocking work beside whoever asks for them."""
