"""Settings of the site, which `make docs` builds in build/docs/html/. Its generated pages are written here first."""

import sys
from pathlib import Path
from typing import Any

import polycast

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs import op_pages

project = "polycast"
author = "the authors of polycast"
release = version = polycast.__version__.partition("+")[0]  # without the PyTorch release that it is built for
html_title = f"polycast {release}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["config.cache"]

# Docstrings are Google's, with a section for the fields of a named tuple.
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Fields", "params_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries = False  # the navigation of each page would copy them, which takes a third of the build
autodoc_mock_imports = ["accelerate", "lightning", "timm"]  # the integrations import them

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Any) -> None:
    """Write the generated pages, and point links to a clone's op reference to the pages of ops."""

    def lead(_app: object, _page: str, text: list[str]) -> None:
        text[0] = text[0].replace("](../generated/op_reference.md)", "](ops/index.md)")

    op_pages.write()
    app.connect("source-read", lead)
