"""Configurations of runs of agents in few words, and those of other trainers, as words of ours."""
