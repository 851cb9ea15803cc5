"""Schedule: from a graph to launches: kernels and library calls, with the places of their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphnet.backends.compiled.locations import HEADER
from graphnet.backends.compiled.schedule import ProgramSchedule, Scheduler
from graphnet.backends.cuda.launch import Launch, ThreadDivision
from graphnet.backends.cuda.loops import loop_launches
from graphnet.backends.cuda.products import Products, grouped, orientation, product_launches
from graphnet.backends.cuda.scatters import Chains, scatter_launches
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Dtype, Node, Shape
from graphnet.plan.arena import ALIGNMENT
from graphnet.plan.instructions import Loop, MatrixProduct, Scatter
from graphnet.plan.lowering import Lowered, lower
from graphnet.plan.transfers import in_one_piece
from graphnet.plan.views import View

#: In the text of a kernel that may raise the error flag.
RAISED = "i8[0] = 1"


class StridedBatch(NamedTuple):
    """Place of an operand of a library's product; offsets are from the start of the arena."""

    start: int
    shape: Shape
    strides: tuple[int, ...]


class LibraryProduct(NamedTuple):
    """c[i] = a[i] b[i] for every i, by cuBLAS."""

    a: StridedBatch
    b: StridedBatch
    c: StridedBatch
    dtype: Dtype
    nodes: tuple[Node, ...]


class Upload(NamedTuple):
    """Leaves that are adjacent on host and GPU, copied at once: when the program is made, if they are constant, else
    before each run."""

    nodes: tuple[Node, ...]
    byte: int
    constant: bool


@dataclass
class LaunchSchedule(ProgramSchedule[list[Launch | LibraryProduct]]):
    """Sections are launches in series, their views located. uploads: the leaves. flagged: True if the error flag may be
    raised."""

    uploads: list[Upload]
    flagged: bool


def make_schedule(graph: Graph, division: ThreadDivision, library: bool, check: bool) -> LaunchSchedule:
    """library: cuBLAS computes products, except those with a vector. check: raises the flag if a value is not
    finite."""
    scheduler = LaunchScheduler(in_one_piece(lower(graph)), check, division, library)
    common = scheduler.schedule()
    return LaunchSchedule(
        **vars(common),
        uploads=scheduler.uploads,
        flagged=any(
            isinstance(run, Launch) and RAISED in run.text for work, _ in common.sections for run in work
        ),
    )


class LaunchScheduler(Scheduler[Launch | Products, list[Launch | LibraryProduct]]):
    """Launches run one after the other. All memory is the GPU's: leaves are brought there, too."""

    def __init__(self, lowered: Lowered, check: bool, division: ThreadDivision, library: bool) -> None:
        super().__init__(lowered, check)
        self.division, self.library = division, library
        self.uploads: list[Upload] = []
        self._chains: Chains = {}
        self._changed = {a.view.buffer for instruction in lowered.instructions for a in instruction.writes}

    def loop(self, loop: Loop) -> Sequence[Launch]:
        return loop_launches(loop, self.division, self.check)

    def products(self, products: Sequence[MatrixProduct]) -> Sequence[Launch | Products]:
        together = grouped(products)
        found = [together] if together else [p for each in products if (p := grouped([each]))]
        return [job for each in found for job in self._product(each)]

    def _product(self, products: Products) -> Sequence[Launch | Products]:
        _, rows, columns = products.c.shape
        lies = products.c.dtype.kind == "f" and all(
            orientation(v.shape[1:], v.strides[1:]) for v in (products.a, products.b, products.c)
        )
        if self.library and lies and rows > 1 and columns > 1 and products.a.shape[2]:
            return [products]
        return product_launches(products, self.division)

    def scatter(self, scatter: Scatter) -> Sequence[Launch]:
        lasting = scatter.index.buffer not in self._changed
        return scatter_launches(scatter, self.division, self._chains if lasting else {})

    def place_leaves(self, leaves: Sequence[Node]) -> int:
        self.uploads, end = _lay_out(leaves, self.lowered.views)
        return end

    def work(self, first: int, jobs: Sequence[Launch | Products]) -> list[Launch | LibraryProduct]:
        return list(map(_located, jobs))


def _lay_out(leaves: Sequence[Node], views: Mapping[Node, View]) -> tuple[list[Upload], int]:
    """Places for leaves after the header, and their end. Adjacent leaves stay adjacent, to be copied at once."""
    uploads: list[Upload] = []
    end, root, stop = HEADER, None, 0
    for node in sorted(leaves, key=lambda n: (n.op.is_parameter, n.value.ctypes.data)):
        address, own = node.value.ctypes.data, _root(node.value)
        constant = not node.op.is_parameter
        gap = address - stop
        if not (
            own is root and own is not None and 0 <= gap < ALIGNMENT and uploads[-1].constant == constant
        ):
            end = -(-end // ALIGNMENT) * ALIGNMENT
            uploads.append(Upload((), end, constant))
            gap = 0
        end += gap
        views[node].buffer.offset = end
        end += node.nbytes
        uploads[-1] = uploads[-1]._replace(nodes=(*uploads[-1].nodes, node))
        root, stop = own, address + node.nbytes
    return uploads, -(-end // ALIGNMENT) * ALIGNMENT


def _root(array: Array) -> Array | None:
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root if root.flags.c_contiguous and root.dtype == array.dtype else None


def _start(view: View) -> int:
    return view.buffer.offset // view.dtype.itemsize + view.offset if view.buffer.nbytes else 0


def _batch(view: View) -> StridedBatch:
    return StridedBatch(_start(view), view.shape, view.strides)


def _located(job: Launch | Products) -> Launch | LibraryProduct:
    if isinstance(job, Products):
        return LibraryProduct(_batch(job.a), _batch(job.b), _batch(job.c), job.c.dtype, job.nodes)
    return job._replace(arguments=tuple(_start(a) if isinstance(a, View) else a for a in job.arguments))
