"""Where workflows and programs run, if not in this process."""
