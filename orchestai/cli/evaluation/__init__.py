"""Commands that measure planners and their parts."""
