"""The documentation site: python3 run.py docs, or python -m sphinx -b html -W --keep-going -n docs build/docs.

Nothing on a page is fetched from elsewhere; the same sources make the same pages, but for what tutorials measure.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS), str(ROOT)]
# Guides and tutorials run in processes of their own; tutorials have their exercises beside them.
_path = [str(ROOT), str(ROOT / "tutorials"), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_path)

from extensions.guides import bare_ipython, fetch_tutorials, keep_one_cache, state_of  # noqa: E402

from graphnet import __version__  # noqa: E402

project = "graphnet"
author = "the graphnet developers"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "extensions.architectures",
    "extensions.public",
    "extensions.links",
    "extensions.docstrings",
    "extensions.formulas",
    "extensions.guides",
]
# Programs and pictures; tutorials are pages.
exclude_patterns = ["*.py", "extensions", "_static", "architectures", "gallery", "in_a_browser"]
exclude_patterns += ["**/.ipynb_checkpoints"]
html_math_renderer = "mathml"
smartquotes = False  # a prime is the value after the step, not an apostrophe

# -- pages ---------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "graphnet"
html_static_path = ["_static"]
html_css_files = ["graphnet.css"]
html_favicon = "_static/logo.svg"
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo-dark.svg",
    "sidebar_hide_name": False,
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#1f66c1", "color-brand-content": "#1f66c1"},
    "dark_css_variables": {"color-brand-primary": "#7db4ff", "color-brand-content": "#7db4ff"},
}
# Pages of docs/in_a_browser.py, if they have been written.
_in_a_browser = ROOT / "build" / "in_a_browser"
for _tag, _page in (("browser", "draw_your_cell.html"), ("lessons", "lessons/index.html")):
    if (_in_a_browser / "browser" / _page).exists():
        tags.add(_tag)  # noqa: F821 (defined by Sphinx)
        html_extra_path = [str(_in_a_browser)]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it cannot be read from file://
pygments_style = "tango"
pygments_dark_style = "github-dark"
toc_object_entries_show_parents = "hide"

# -- Markdown and notebooks ----------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
tutorials = fetch_tutorials(ROOT / "tutorials", DOCS / "tutorials")
os.environ["IPYTHONDIR"] = bare_ipython(ROOT / "build" / "ipython")
suppress_warnings = [] if tutorials else ["toc.empty_glob"]
guides_that_run = [
    "quick_start",
    "declaring_cells",
    "declaring_optimizers",
    "arrays_and_tables",
    "forecasting",
    "coming_from_pytorch_and_keras",
    "variable_length_sequences",
    "music",
    "autoencoders",
    "balls",
    "composing",
    "sequence_to_sequence",
    "training",
    "which_optimizer",
    "faq",
    "how_others_draw_it",
    "schedules",
    "early_stopping_and_callbacks",
    "second_order",
    "hessian_free_settings",
    "hmm_and_rbm",
    "non_convex_losses",
    "natural_gradient",
    "natural_gradient_for_your_own_cell",
    "curvature",
    "declaring_ops",
    "debugging_nans",
    "speed_and_memory",
    "what_breaks_others",
    "threads",
    "on_a_gpu",
    "drawing",
    "reading_a_run",
    "exporting",
    "long_sequences",
    "control",
    "hyperparameter_search",
    "data_parallel_training",
    "writing",
    "evaluating_text_models",
]
nb_custom_formats = {".py": "extensions.guides.read_tutorial"}
nb_execution_mode = "cache"
_code = [ROOT / "graphnet", ROOT / "graphnet_rnn", ROOT / "viz", ROOT / "tutorials" / "exercises.py"]
nb_execution_cache_path = keep_one_cache(ROOT / "build" / "notebooks", state_of(*_code))
nb_execution_in_temp = True
nb_execution_timeout = 900
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # widgets would fetch their scripts
# Pictures as files of the site, and not as the HTML that fits them to a notebook.
nb_mime_priority_overrides = [("html", "image/svg+xml", 25)]

# -- API -----------------------------------------------------------------------------------------

autodoc_typehints_format = "short"
#: Kinds of settings (graphnet_rnn/settings.py), as the types that they are.
autodoc_type_aliases = {
    **dict.fromkeys(("Count", "CountOrZero"), "int"),
    **dict.fromkeys(("Amount", "Density", "Fraction", "Limit", "Number", "Positive", "Share"), "float"),
    **dict.fromkeys(("FractionOrSchedule", "Rate"), "graphnet_rnn.Schedule"),
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
