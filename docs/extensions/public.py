"""The public names: where each is documented, links to them, and the directive that documents them.

    .. public:: graphnet

       gradient backward rop
       LIGHT  a name with its own description, for values, which have no docstring

A name is documented once, under the shortest path by which users know it: rnn.LSTM, not rnn.cells.LSTM.
`gn.gradient` in code, anywhere on the site, becomes a link; also `Function.profile`, and gn.gradient in a docstring.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

__all__ = ["PACKAGES", "documented_names", "public_modules", "public_path", "setup"]

PACKAGES = ("graphnet", "graphnet_rnn", "viz")
_SHORT = {"gn": "graphnet", "rnn": "graphnet_rnn"}
#: What autodoc makes of aliases -> what is read, in this order.
_ALIASES = (
    ("~numpy.ndarray[~typing.Any, ~typing.Any]", "~numpy.ndarray"),
    (
        "~collections.abc.Callable[[~numpy.random._generator.Generator, tuple[int, ...]], ~numpy.ndarray]",
        "~graphnet_rnn.initializers.Initializer",
    ),
    ("passes_module.", "gn.passes."),
)
_FOREIGN = re.compile(r"~(?:collections\.abc|typing|numpy|pathlib)\.(?:\w+\.)*(\w+)")
_DOTTED = re.compile(r"\b(?:gn|rnn|viz|graphnet|graphnet_rnn)(?:\.[A-Za-z_]\w*)+")


@cache
def public_modules() -> dict[str, ModuleType]:
    """The packages and their public modules, by dotted name; shortest names first."""
    found: dict[str, ModuleType] = {}
    waiting = [(name, importlib.import_module(name)) for name in PACKAGES]
    while waiting:
        name, module = waiting.pop(0)
        found[name] = module
        waiting += [
            (f"{name}.{member}", value)
            for member in getattr(module, "__all__", ())
            if isinstance(value := getattr(module, member), ModuleType)
        ]
    return dict(
        sorted(found.items(), key=lambda item: (item[0].count("."), PACKAGES.index(item[0].split(".")[0])))
    )


@cache
def documented_names() -> dict[str, str]:
    """Every public path -> the path under which it is documented."""
    by_identity: dict[int, str] = {}
    found: dict[str, str] = {}
    for name, module in public_modules().items():
        found[name] = name
        for member in module.__all__:
            path, value = f"{name}.{member}", getattr(module, member)
            if isinstance(value, ModuleType):
                continue
            if isinstance(value, type) or inspect.isroutine(value):
                found[path] = by_identity.setdefault(id(value), path)
            else:
                found[path] = path
    return found


@cache
def _by_class_name() -> dict[str, str]:
    """Class name -> path, where only one public class has it: for `Function.profile` and "Raises ShapeError"."""
    names = documented_names()
    found: dict[str, set[str]] = {}
    for path in set(names.values()):
        if isinstance(_value(path), type):
            found.setdefault(path.rsplit(".", 1)[-1], set()).add(path)
    return {name: next(iter(paths)) for name, paths in found.items() if len(paths) == 1}


def _value(path: str) -> Any:
    if path in public_modules():
        return public_modules()[path]
    module, name = path.rsplit(".", 1)
    return getattr(public_modules()[module], name)


def public_path(written: str) -> str | None:
    """Where the object that is written like this is documented: "rnn.cells.LSTM" -> "graphnet_rnn.LSTM"."""
    head, _, rest = written.partition(".")
    path = f"{_SHORT.get(head, head)}.{rest}" if rest else head
    names = documented_names()
    if path in names:
        return names[path] if rest else None
    owner, _, member = path.rpartition(".")
    owner = names.get(owner) or _by_class_name().get(owner) or ""
    if not owner:
        return _by_class_name().get(path) if path.endswith("Error") else None
    is_member = isinstance(_value(owner), type) and inspect.getdoc(getattr(_value(owner), member, None))
    return f"{owner}.{member}" if is_member and not member.startswith("_") else None


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
        return holder.children

    def _entries(self, module: str) -> Iterator[tuple[str, str]]:
        """Path and description of each."""
        done = self.env.current_document.setdefault("public", [])
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
                    yield path, f"A value of the class ``{type(_value(path)).__name__}``."


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
        known = documented_names().get(path)
        raise ValueError(f"{path} is " + (f"documented as {known}" if known else "no public name"))
    value = _value(path)
    if isinstance(value, type):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        # What is inherited from a class that has its own entry is found there.
        known = [base for base in value.__mro__[1:] if _path_of(base)]
        stop = ", ".join(
            [*(base.__name__ for base in known), "ABC", "Generic", "object", "dict", "tuple", "Exception"]
        )
        hidden = ", ".join(sorted(_told_by_bases(value, known)))
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


def _told_by_bases(value: type, known: list[type]) -> set[str]:
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


def _path_of(value: Any) -> str | None:
    """The documented path of a class or function."""
    wanted = id(value)
    return _identities().get(wanted)


@cache
def _identities() -> dict[int, str]:
    return {id(_value(path)): path for path in documented_names().values() if path not in public_modules()}


class LinkNames(SphinxTransform):
    """Public names in code, and those with a prefix in docstrings' prose, become links."""

    default_priority = 740

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, (nodes.reference, addnodes.pending_xref, nodes.title)):
                continue
            written = re.match(r"[A-Za-z_][\w.]*\w", literal.astext())
            path = public_path(written[0]) if written else None
            if path and not _is_inside_entry(literal, path):
                literal.parent.replace(literal, _link(path, literal))
        for text in list(self.document.findall(nodes.Text)):
            written = text.astext()  # without the marks of backslashes
            if _DOTTED.search(written) and isinstance(text.parent, nodes.paragraph) and _in_api(text):
                text.parent.replace(text, _linked(written))


def _linked(text: str) -> list[nodes.Node]:
    parts: list[nodes.Node] = []
    end = 0
    for found in _DOTTED.finditer(text):
        path = public_path(found[0])
        if path is None:
            continue
        parts += [nodes.Text(text[end : found.start()]), _link(path, nodes.literal("", found[0]))]
        end = found.end()
    return [*parts, nodes.Text(text[end:])]


def _link(path: str, content: nodes.literal) -> addnodes.pending_xref:
    return addnodes.pending_xref(
        "",
        content.deepcopy(),
        refdomain="py",
        reftype="obj",
        reftarget=path,
        refexplicit=True,
        refwarn=True,
    )


def _in_api(node: nodes.Node) -> bool:
    while node is not None:
        if isinstance(node, addnodes.desc_content):
            return True
        node = node.parent
    return False


def _is_inside_entry(node: nodes.Node, path: str) -> bool:
    """Whether the node stands in the entry of this very name, where a link would lead nowhere."""
    while node is not None:
        if isinstance(node, addnodes.desc):
            signature = node.next_node(addnodes.desc_signature)
            if signature is not None and path in signature.get("ids", ()):
                return True
        node = node.parent
    return False


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Types in signatures: public ones by the path where they are documented, others as plain text."""
    if node.get("refdomain") != "py" or node.get("refwarn"):
        return None
    target = node["reftarget"]
    module, _, name = target.rpartition(".")
    value = None
    if module.split(".")[0] in PACKAGES:
        try:
            value = getattr(importlib.import_module(module), name, None)
        except ImportError:
            return None
        if value is None:
            return None
    path = _path_of(value) if value is not None else None
    if path is None:
        return content
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, content)


def public_bases(app: Sphinx, name: str, value: type, options: Any, bases: list[Any]) -> None:
    """autodoc-process-bases: only those that a reader can look up."""
    bases[:] = [base for base in bases if _path_of(getattr(base, "__origin__", base))]


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
        signature = re.sub(r": Any(?= =|,|\))", "", signature)  # it says nothing
    return signature, None if returned in ("Any", "None") else returned


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    app.add_transform(LinkNames)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-signature", plain_signature)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
