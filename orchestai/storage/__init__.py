"""Files that are either whole or absent, their digests, who may write to a folder, and bytes kept by key."""
