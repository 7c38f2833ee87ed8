"""The site's settings. `make docs` puts the generated pages beside these, and runs Sphinx on both."""

import polycast

project = "polycast"
author = "the authors of polycast"
release = version = polycast.__version__.partition("+")[0]  # without the torch that it is built for
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
toc_object_entries = False  # which each page's navigation would copy, in a third of the time of the build
autodoc_mock_imports = ["accelerate", "lightning", "timm", "torchtitan"]  # of integrations

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
