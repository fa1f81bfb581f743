"""The formulas of policy optimization: credit, advantages, critics and losses."""
