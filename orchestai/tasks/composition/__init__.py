"""The composition suite: tasks that compose one-step operations as a DAG, generated from a seed."""
