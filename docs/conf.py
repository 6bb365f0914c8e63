"""The documentation as a site (`make docs-site`): Sphinx reads the Markdown pages of the repository where they are.

The pages know nothing of Sphinx, so that they read the same on a code host. What they lack is added here: the
navigation, which is the list `Read on` of README.md, and below the README.md of a folder the other pages there.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

from workflow import __version__

project = "wf"
author = "The wf developers"
copyright = author
release = __version__

# The source folder is the repository: relative links between pages, and to pictures and source files, are right.
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [".*", "build", "dist", "runs", "campaigns", "**/runs"]

extensions = ["myst_parser"]
# Anchors of headings as code hosts make them.
myst_heading_anchors = 6
# A block without a language is no program.
highlight_language = "text"
# `--profile` in a sentence is no dash.
smartquotes = False
nitpicky = True

html_theme = "furo"
html_title = f"wf {__version__}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_search_scorer = str(Path(__file__).parent / "_site" / "scorer.js")
html_copy_source = False
html_show_copyright = False

READ_ON = "\n## Read on\n"
# For developers: users who search for a word want to know what to do.
NOT_SEARCHED = "docs/decisions/0"


def read_on(readme: str) -> dict[str, list[str]]:
    """Caption → documents: the list `Read on`. Links to a part of a page are left out."""
    section = readme.partition(READ_ON)[2].partition("\n## ")[0]
    groups: dict[str, list[str]] = {}
    for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        caption, _, links = item.removeprefix("**").partition(":**")
        groups[caption] = re.findall(r"\]\(([^)#]+)\.md\)", links)
    return groups


def pages_below(folder_page: str, documents: Iterable[str]) -> list[str]:
    """The pages in the folder of this README.md, and those of its folders without one of their own, sorted."""
    known = set(documents)

    def page_above(document: str) -> str:
        folder = posixpath.dirname(document)
        if posixpath.basename(document) == "README":
            folder = posixpath.dirname(folder)
        while folder and f"{folder}/README" not in known:
            folder = posixpath.dirname(folder)
        return f"{folder}/README" if folder else "README"

    return sorted(document for document in known if page_above(document) == folder_page)


def add_navigation(app: Sphinx, document: str, source: list[str]) -> None:
    """Append the table of contents of a README.md to its text."""
    if posixpath.basename(document) != "README":
        return
    readme = (Path(app.srcdir) / "README.md").read_text(encoding="utf-8")
    groups = read_on(readme)
    if document != root_doc:
        named = {page for pages in groups.values() for page in pages}
        groups = {"": [page for page in pages_below(document, app.env.found_docs) if page not in named]}
    for caption, pages in groups.items():
        if pages:
            options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
            source[0] += "\n".join(["\n\n```{toctree}", *options, *(f"/{page}" for page in pages), "```\n"])


def leave_out_of_search(_app: Sphinx, document: str, source: list[str]) -> None:
    """Only the title of such a page is in the index of the search; the list of decisions has them all."""
    if document.startswith(NOT_SEARCHED):
        source[0] = f"---\nnosearch: true\n---\n\n{source[0]}"


def write_front_page(app: Sphinx, error: Exception | None) -> None:
    """index.html is the page of README.md, so that a folder or an address without a page opens it."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("source-read", leave_out_of_search)
    app.connect("build-finished", write_front_page)
    return {"parallel_read_safe": True}
