"""How a server improves from what it served: candidates, trials beside the incumbent, promotion with proof."""
