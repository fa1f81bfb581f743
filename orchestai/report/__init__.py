"""One offline HTML page that shows runs: what they claim, how they learned, every execution, group and transcript."""
