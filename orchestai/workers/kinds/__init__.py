"""Kinds of workers beside models and tools, and how a kind is made."""
