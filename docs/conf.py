"""How Sphinx makes the site: `make docs`."""

import orchestai

project = "OrchestAI"
author = "The OrchestAI authors"
release = orchestai.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "results"]
suppress_warnings = ["myst.xref_missing"]
"""Links to files that are no pages; tests/test_documentation.py checks that all links lead somewhere."""
myst_heading_anchors = 3
myst_enable_extensions = ["smartquotes"]
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_mock_imports = ["vllm", "deepspeed", "bitsandbytes", "ray"]
html_theme = "furo"
html_title = f"OrchestAI {release}"
html_show_sourcelink = False
html_static_path = []
