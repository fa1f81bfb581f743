"""How models are asked, and how their replies become answers."""
