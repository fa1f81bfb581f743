"""Git repositories that agents work on: read, patched and tested in the sandbox."""
