"""How Sphinx builds the site from this folder; `make docs` runs it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE / "_ext")]

import monedula  # noqa: E402 - found through the path above

project = "monedula"
author = "the authors of monedula"
version = release = monedula.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "reference"]
root_doc = "index"
exclude_patterns = ["_ext"]

# Anchors of headings as on GitHub, for links such as groups.md#static-members.
myst_heading_anchors = 4
# Everything that can be linked has to be there.
suppress_warnings: list[str] = []

# Text between single backticks in docstrings: a link to what it names, or code.
default_role = "py:obj"
autodoc_mock_imports = ["pandas", "polars", "pyarrow", "pyspark"]
autodoc_member_order = "bysource"
# What a class inherits from these is told in Python's own documentation.
FOREIGN = ["tuple", "list", "dict", "str", "int", "BaseException", "Exception", "OSError", "Enum", "object"]
autodoc_default_options = {"members": True, "inherited-members": ",".join(FOREIGN)}
autodoc_typehints = "signature"
# One parameter a line where a signature is longer than this.
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "monedula"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
