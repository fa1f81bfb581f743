"""What is asked of the processes of an attempt: run the tests, hold the candidate, watch both, read the verdicts."""
