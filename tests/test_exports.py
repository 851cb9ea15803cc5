"""What is listed as public is where users look for it: gn.NAME, rnn.NAME."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.ops import FAMILIES
from tests.tables import require_rows

DOCS = Path(__file__).parent.parent / "docs"
#: Functions of the families of ops that are for other modules: they take or give no nodes, or have an operator.
INTERNAL = {
    "rowwise": {"refused", "run_rows"},
    "leaf": {"as_node", "as_shape", "as_size", "filled", "zeros"},
    "shape": {
        "basic_slice", "edges_of", "is_whole", "joined_entry", "normalize_axes", "normalize_axis", "inputs_between",
        "slice_along", "split",
    },
    "broadcast": {"summed"},
    "linear": {"scaled_rows"},
    "index": {"getitem", "is_by_columns"},
}  # fmt: skip


def test_every_function_of_the_ops_is_exported() -> None:
    for family in FAMILIES:
        name = family.__name__.rpartition(".")[2]
        functions = {each for each in family.__all__ if inspect.isfunction(getattr(family, each))}
        internal = INTERNAL.get(name, set())
        missing = functions - internal - set(gn.__all__)
        require_rows(
            missing,
            "the imports and __all__ of graphnet",
            "the function (or to INTERNAL, if it is for modules)",
        )
        assert internal <= functions - set(gn.__all__), f"INTERNAL of {name} lists what is gone, or exported"


def test_every_optimizer_is_exported() -> None:
    kinds = set(rnn.optimizers.ALL.values())
    missing = {
        kind for kind in kinds if kind.__name__ not in rnn.__all__ or getattr(rnn, kind.__name__) is not kind
    }
    require_rows(missing, "the imports and __all__ of graphnet_rnn", "the class")


def test_one_error_catches_all() -> None:
    """`except gn.GraphnetError` is enough for whatever the packages raise on purpose."""
    modules = (
        importlib.import_module(f"{package}.errors") for package in ("graphnet", "graphnet_rnn", "viz")
    )
    raised = [
        each for module in modules for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Exception)
    ]  # fmt: skip
    assert len(raised) > 5
    assert [each for each in raised if not issubclass(each, gn.GraphnetError)] == []


def names_of_the_api() -> ModuleType:
    """How the site finds public names; it needs no Sphinx."""
    spec = importlib.util.spec_from_file_location("names_of_the_api", DOCS / "extensions" / "names.py")
    assert spec is not None
    assert spec.loader is not None
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    return names


def test_every_public_name_has_its_place_on_the_pages_of_the_api() -> None:
    """Also where no Sphinx is installed, which test_site needs."""
    names = names_of_the_api()
    listed: set[str] = set()
    for page in (DOCS / "api").glob("*.rst"):
        for module, block in re.findall(
            r"^\.\. public:: (\S+)\n((?:\n|   .*\n?)*)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            lines = [re.split(r"  ", line.strip())[0] for line in block.splitlines()]
            words = {word for line in lines for word in line.split()}
            words |= set(names.public_modules()[module].__all__) if "..." in words else set()
            listed |= {f"{module}.{word}" for word in words}
    missing = {
        documented
        for path, documented in names.documented_names().items()
        if documented not in listed and not isinstance(names.value_of(path), ModuleType)
    }
    require_rows(missing, "docs/api/", "the name, below its module")
