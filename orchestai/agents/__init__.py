"""Programs in which several roles act, over several turns: they give the episodes that phase 2 learns from."""
