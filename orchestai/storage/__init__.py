"""Files that are either whole or absent, their digests, and who may write to a folder."""
