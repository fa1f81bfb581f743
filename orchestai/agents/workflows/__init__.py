"""The workflows that come with the package: one file each."""
