"""Tools for the almanac suite: search, readers, arithmetic with units and dates, comparison.

Each is a function of a request. None is right on every wording, and none sees more than a request shows.
"""
