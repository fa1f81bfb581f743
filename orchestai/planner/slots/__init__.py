"""The slot planner: a frozen text encoder, a decoder that points at the words of steps, and a selector of workers."""
