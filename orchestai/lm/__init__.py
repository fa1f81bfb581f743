"""The language-model runtime that planner, agents and workers share."""
