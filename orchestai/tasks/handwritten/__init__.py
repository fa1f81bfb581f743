"""Instructions that people wrote by hand, with the words of their steps; some with programs and tests."""
