"""The directive that documents public names, and how their signatures are shown.

.. public:: graphnet

   gradient backward rop
   LIGHT  a name with its own description, for values, which have no docstring
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from extensions.names import documented_names, path_of, public_modules, value_of

#: What autodoc makes of aliases -> what is read, in this order.
_ALIASES = (
    ("~numpy.ndarray[~typing.Any, ~typing.Any]", "~numpy.ndarray"),
    (
        "~collections.abc.Callable[[~numpy.random._generator.Generator, tuple[int, ...]], ~numpy.ndarray]",
        "~graphnet_rnn.cell.initializers.Initializer",
    ),
    ("passes_module.", "gn.passes."),
)
_FOREIGN = re.compile(r"~(?:collections\.abc|typing|numpy|pathlib)\.(?:\w+\.)*(\w+)")


class Public(SphinxDirective):
    """Documents names of a module; a line of one name and two spaces gives a value its description.

    `...` stands for all names of the module that the page has not documented so far.
    """

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for path, description in self._entries(self.arguments[0]):
            try:
                lines += _directive(path, description)
            except ValueError as mistake:
                raise self.error(str(mistake)) from mistake
        source = self.get_source_info()[0]
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, source), self.content_offset, holder)
        return list(holder.children)

    def _entries(self, module: str) -> Iterator[tuple[str, str]]:
        """Path and description of each."""
        done: list[str] = self.env.current_document.setdefault("public", [])  # type: ignore[assignment]
        for line in self.content:
            name, _, description = line.strip().partition("  ")
            words = [name] if description else line.split()
            for word in words:
                if word != "...":
                    done.append(f"{module}.{word}")
                    yield done[-1], description.strip()
                    continue
                for path in _left(module, done):
                    done.append(path)
                    yield path, f"A value of the class ``{type(value_of(path)).__name__}``."


def _left(module: str, done: list[str]) -> list[str]:
    """The names that are documented as this module's, without those done."""
    paths = (f"{module}.{name}" for name in public_modules()[module].__all__)
    names = documented_names()
    return [
        path for path in paths if names[path] == path and path not in done and path not in public_modules()
    ]


def _directive(path: str, description: str) -> list[str]:
    """The lines of the autodoc directive for a name."""
    if documented_names().get(path) != path:
        elsewhere = documented_names().get(path)
        raise ValueError(f"{path} is " + (f"documented as {elsewhere}" if elsewhere else "no public name"))
    value = value_of(path)
    if isinstance(value, type):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        # What is inherited from a class that has its own entry is found there.
        known = [base for base in value.__mro__[1:] if path_of(base)]
        stop = ", ".join(
            [*(base.__name__ for base in known), "ABC", "Generic", "object", "dict", "tuple", "Exception"]
        )
        hidden = ", ".join(sorted(_described_by_bases(value, known)))
        options = [
            "   :members:",
            f"   :inherited-members: {stop}",
            *[f"   :exclude-members: {hidden}"] * bool(hidden),
            *["   :show-inheritance:"] * bool(known),
        ]
        return [f".. {kind}:: {path}", *options, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}", ""]
    if not description:
        raise ValueError(f"{path} is a value: give its description on a line of its own, after two spaces")
    module, name = path.rsplit(".", 1)
    return [f".. py:data:: {name}", f"   :module: {module}", "", f"   {description}", ""]


def _described_by_bases(value: type, known: list[type]) -> set[str]:
    """Members whose meaning is that of a base: those that the class does not describe anew."""
    found: set[str] = set()
    for base in known:
        commented = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        found |= set(dir(base)) | {member for owner, member in commented if owner == base.__name__}
    own = [cls for cls in value.__mro__ if cls not in known]
    described = {
        name for cls in own for name, member in vars(cls).items() if getattr(member, "__doc__", None)
    }
    values = {
        name for name in described if isinstance(getattr(value, name, None), (int, float, str, tuple, dict))
    }
    return {name for name in found if not name.startswith("_")} - (described - values)


def public_bases(app: Sphinx, name: str, value: type, options: Any, bases: list[Any]) -> None:
    """autodoc-process-bases: only those that a reader can look up."""
    bases[:] = [base for base in bases if path_of(getattr(base, "__origin__", base))]


def plain_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """autodoc-process-signature: types by the names that the sources give them."""
    for spelled_out, alias in _ALIASES:
        signature = signature and signature.replace(spelled_out, alias)
        returned = returned and returned.replace(spelled_out, alias)
    returned = returned and _FOREIGN.sub(r"\1", returned)
    if signature is not None:
        signature = _FOREIGN.sub(r"\1", signature)
        signature = re.sub(
            r"TypeAliasForwardRef\('(?:\w+\.)*(\w+)'\)", r"\1", signature
        )  # a kind that may be None
        signature = re.sub(r": Any(?= =|,|\))", "", signature)  # it says nothing
    return signature, None if returned in ("Any", "None") else returned


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-signature", plain_signature)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
