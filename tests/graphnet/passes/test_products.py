"""The passes for compiled back ends and for products: each fires where it should, and only there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from tests.tables import case


def count(graph: Graph, op: str = "MatMul") -> int:
    return sum(node.op.name == op for node in graph.order)


def ops_of(graph: Graph) -> Counter[str]:
    return Counter(node.op.name for node in graph.order)


def values_of(graph: Graph) -> list[Array]:
    """Of all outputs, on the NumPy back end, for random numbers in all inputs."""
    generator = np.random.default_rng(0)
    arrays = [
        generator.standard_normal(x.shape) if x.dtype.kind == "f" else generator.integers(0, 2, x.shape)
        for x in graph.inputs
    ]
    return list(gn.compile(graph.outputs, graph.inputs, backend="numpy", passes=())(*arrays))


def same_values(before: Graph, after: Graph) -> None:
    assert after.inputs == before.inputs
    for a, b in zip(values_of(after), values_of(before), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def matrix(*shape: int) -> Node:
    return gn.input(shape, "float64")


def weights(*shape: int) -> Node:
    size = int(np.prod(shape))
    return gn.parameter(np.sin(np.arange(size, dtype="float64")).reshape(shape))


# -- recurrent nets --------------------------------------------------------------------------------


class Gated(rnn.Cell):
    """m = (x W_xm) (h W_hn); z = σ(x, m, s);  h' = z tanh(x, m);  s' = (1 - z) s + z tanh m. In no repository."""

    states = (rnn.State("h"), rnn.State("s"))

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        m = self.affine("m", x=x, bias=None) * self.affine("n", h=h, bias=None)
        z = gn.sigmoid(self.affine("z", x=x, m=m, s=s))
        return gn.tanh(self.affine("h", x=x, m=m)) * z, (1 - z) * s + z * gn.tanh(m)


def unrolled(cell: type[rnn.Cell], steps: int) -> rnn.Unrolled:
    """Over dense inputs, which are multiplied by weights as states are."""
    net = rnn.Network([cell(5)], 4, 3, dtype="float64", reads="vectors")
    return net.unroll(steps, 2, training=False)


def of_net(cell: type[rnn.Cell], steps: int, what: str) -> Graph:
    """The cost, or a derivative of it, as the passes that stack products are given it."""
    u = unrolled(cell, steps)
    parameters = list(u.network.parameters.values())
    tangents = {p: weights(*p.shape) for p in parameters}
    nodes: dict[str, Callable[[], Sequence[Node]]] = {
        "cost": lambda: [u.cost],
        "gradient": lambda: gn.gradient(u.cost, parameters),
        "rop": lambda: gn.rop([u.logits], tangents),
        "Hv": lambda: gn.hessian_product(u.cost, tangents),
        "Gv": lambda: gn.gauss_newton_product(u.cost, tangents),
    }
    graph = Graph(nodes[what](), [u.inputs, u.targets, *u.initial])
    return passes.simplify(passes.merge(passes.prune(graph)))


def stacked(graph: Graph) -> Graph:
    return passes.stack_columns(passes.stack_rows(passes.stack_sums(graph)))


@pytest.mark.parametrize(("cell", "gates", "steps"), [(rnn.Elman, 1, 5), (rnn.LSTM, 4, 2)])
class TestUnrolled:
    def test_columns_make_all_gates_of_a_step_one_product(
        self, cell: type[rnn.Cell], gates: int, steps: int
    ) -> None:
        """x_t [W_x· ...], and h_t [W_h· ... | W_ho], the output of step t with the gates of step t + 1."""
        before = of_net(cell, steps, "cost")
        after = passes.stack_columns(before)
        assert count(before) == (2 * gates + 1) * steps
        # With one gate, x_t has one product as before.
        assert count(after) == 2 * steps + 1
        widths = Counter(node.shape for node in after.order if node.op.name == "MatMul")
        assert widths[2, 5 * gates + 3] == steps - 1
        same_values(before, after)

    def test_rows_make_all_steps_one_product_where_they_do_not_wait(
        self, cell: type[rnn.Cell], gates: int, steps: int
    ) -> None:
        """x_t W for all t, h_t W_ho for all t; h_t W_h· follow one another."""
        before = of_net(cell, steps, "cost")
        after = passes.stack_rows(before)
        assert count(after) == gates + gates * steps + 1
        assert {(2 * steps, 5), (2 * steps, 3)} <= {n.shape for n in after.order if n.op.name == "MatMul"}
        same_values(before, after)

    def test_sums_make_a_weight_s_gradient_and_a_state_s_one_product(
        self, cell: type[rnn.Cell], gates: int, steps: int
    ) -> None:
        before = of_net(cell, steps, "gradient")
        after = passes.stack_sums(before)
        forward = (2 * gates + 1) * steps
        output = steps  # go_t W_hoᵀ, which rows can take
        assert count(before) == forward + output + gates * (steps - 1) + (2 * gates + 1) * steps
        assert count(after) == forward + output + (steps - 1) + (2 * gates + 1)
        same_values(before, after)

    def test_sums_add_a_bias_s_gradient_up_once(self, cell: type[rnn.Cell], gates: int, steps: int) -> None:
        before = of_net(cell, steps, "gradient")
        biases = gates + 1

        def over_rows(graph: Graph) -> int:
            return sum(n.op.name == "Sum" and n.op.axes == (0,) for n in graph.order)

        assert over_rows(before) == biases * steps
        assert over_rows(passes.stack_sums(before)) == biases


def test_a_step_keeps_the_products_that_follow_one_another() -> None:
    """Each sweep through time has one product a step for each that must wait for the one before; all else
    is joined over time. left: how many values of a step are multiplied by weights (h; for a Gated cell h, m
    and s), however many gates read them.
    """
    for cell, left in ((rnn.Elman, 1), (rnn.LSTM, 1), (rnn.GRU, 2), (Gated, 3)):
        for what, sweeps in (("cost", 1), ("gradient", 2), ("rop", 2), ("Gv", 3)):
            with case(cell.__name__, what):
                graphs = {steps: of_net(cell, steps, what) for steps in (3, 5)}
                after = {steps: stacked(graph) for steps, graph in graphs.items()}
                assert count(after[5]) - count(after[3]) == 2 * sweeps * left
                assert count(after[3]) < count(graphs[3])
                same_values(graphs[3], after[3])


def test_the_gradient_of_every_gate_is_one_product() -> None:
    """xᵀ [gz_1 | gz_2 | ...] and hᵀ [...] over all steps: as many products for an LSTM as for an Elman net."""
    found = {cell: count(stacked(of_net(cell, 4, "gradient"))) for cell in (rnn.Elman, rnn.LSTM)}
    forward, back, at_most = 4 + 2, 3 + 1, 3  # one each for the weights of x, of h, and of the output
    assert len(set(found.values())) == 1
    assert found[rnn.LSTM] <= forward + back + at_most


# -- sums --------------------------------------------------------------------------------------------

x, y = matrix(3, 4), matrix(3, 4)
W, V = weights(4, 2), weights(4, 2)


STAY_SUMS = [
    lambda: [x.T @ y],
    lambda: [x.T @ y + 1.0],
    lambda: [x.T @ y + gn.sin(x.T @ y)],
    lambda: [gn.stack([x.T @ x, y.T @ y])],
    lambda: [gn.add(x, x * 2.0)],
    lambda: [x @ y.T + y @ gn.tanh(x.T)],  # not transposed on the left: no gradient of a weight
    lambda: [(p := x.T @ y) + (q := y.T @ x), p, gn.sin(q)],  # computed twice otherwise
    lambda: [gn.add(gn.sum(x, 0), gn.sum(y, 1)[:1])],
]


class TestStackSums:
    def test_rows_may_differ_in_number(self) -> None:
        """Time steps with different batches stack as well."""
        factors = [(matrix(n, 2), matrix(n, 3)) for n in (1, 5, 2)]
        before = Graph([gn.add(*(a.T @ b for a, b in factors))])
        after = passes.stack_sums(before)
        assert (count(before), count(after)) == (3, 1)
        same_values(before, after)

    def test_terms_that_are_no_products_stay(self) -> None:
        before = Graph([gn.add(x.T @ y, gn.sin(W @ V.T), y.T @ x, W @ W.T)])
        after = passes.stack_sums(before)
        assert (count(before), count(after)) == (4, 3)
        assert count(after, "Sin") == 1
        same_values(before, after)

    def test_what_would_not_become_less_stays(self) -> None:
        for build in STAY_SUMS:
            graph = Graph(build(), [x, y])
            assert ops_of(passes.stack_sums(graph)) == ops_of(graph)


# -- rows and columns -------------------------------------------------------------------------------------


STAY_ROWS = [lambda: [x @ W, x @ V], lambda: [x @ W, y @ V], lambda: [x @ W, W.T @ y.T]]


class TestStackRows:
    def test_rows_may_differ_in_number(self) -> None:
        a, b = matrix(1, 4), matrix(6, 4)
        before = Graph([a @ W, gn.tanh(b) @ W, (x + 1.0) @ W])
        after = passes.stack_rows(before)
        assert (count(before), count(after)) == (3, 1)
        same_values(before, after)

    def test_slices_in_order_are_read_where_they_lie(self) -> None:
        """x_t W for the slices of one array: no join at all, however the products were written."""
        source = matrix(4, 3, 4)
        for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
            before = Graph([gn.sin(source[t] @ W) for t in order])
            after = passes.stack_rows(before)
            assert (count(after), count(after, "Concatenate")) == (1, 0)
            same_values(before, after)

    def test_products_that_wait_for_each_other_stay(self) -> None:
        square = weights(4, 4)
        chain = x
        for _ in range(4):
            chain = gn.tanh(chain @ square)
        graph = Graph([chain])
        assert ops_of(passes.stack_rows(graph)) == ops_of(graph)

    def test_two_chains_stay(self) -> None:
        """Links of one length could be joined, but cores would then wait for each other at every link."""
        square = weights(4, 4)
        a, b = x, y
        for _ in range(4):
            a, b = gn.tanh(a @ square), gn.sin(b @ square)
        graph = Graph([a, b])
        assert ops_of(passes.stack_rows(graph)) == ops_of(graph)

    def test_groups_that_would_wait_for_each_other_are_not_both_made(self) -> None:
        """(x W, b W) and (y V, a V) with a from x W and b from y V: one pair at most, never both."""
        left, right = weights(4, 4), weights(4, 4)
        p, q = x @ left, y @ right
        before = Graph([gn.sin(p) @ right, gn.sin(q) @ left])
        after = passes.stack_rows(before)
        assert count(after) >= 3
        same_values(before, after)

    def test_different_right_operands_stay(self) -> None:
        for build in STAY_ROWS:
            graph = Graph(build(), [x, y])
            assert ops_of(passes.stack_rows(graph)) == ops_of(graph)

    def test_empty_products_stay(self) -> None:
        graph = Graph([matrix(0, 4) @ W, matrix(0, 4) @ W])
        assert ops_of(passes.stack_rows(graph)) == ops_of(graph)


STAY_COLUMNS = [lambda: [x @ W, y @ W], lambda: [x @ W, x.T @ y], lambda: [x @ W + x @ W]]


class TestStackColumns:
    def test_columns_may_differ_in_number(self) -> None:
        """Weights are joined; what varies is no neighbour of theirs."""
        before = Graph([x @ W, x @ weights(4, 1), x @ gn.tanh(weights(4, 7)), x @ y.T])
        after = passes.stack_columns(before)
        assert (count(before), count(after)) == (4, 2)
        same_values(before, after)

    def test_products_that_wait_for_each_other_stay(self) -> None:
        a = matrix(3, 3)
        p = a @ matrix(3, 3)
        graph = Graph([a @ gn.tanh(p)])
        assert ops_of(passes.stack_columns(graph)) == ops_of(graph)

    def test_different_left_operands_stay(self) -> None:
        for build in STAY_COLUMNS:
            graph = passes.merge(Graph(build(), [x, y]))
            assert ops_of(passes.stack_columns(graph)) == ops_of(graph)


def test_products_of_batches_are_left_alone() -> None:
    for name in ("stack_sums", "stack_rows", "stack_columns", "batch"):
        with case(name):
            a, b = matrix(2, 3, 4), matrix(2, 4, 5)
            graph = Graph([gn.add(a @ b, gn.sin(a) @ b), a @ gn.cos(b)])
            assert ops_of(getattr(passes, name)(graph)) == ops_of(graph)


def test_new_nodes_keep_the_line_and_scope_of_old_ones() -> None:
    """Every node that a pass makes belongs to a step and a line of the net that it was given."""
    for name in ("stack_sums", "stack_rows", "stack_columns", "batch", "expand", "fuse"):
        with case(name):
            graph = of_net(rnn.LSTM, 3, "gradient")
            lines = {node.origin for node in graph.order}
            for node in getattr(passes, name)(graph).order:
                assert node.origin in lines


# -- batch -------------------------------------------------------------------------------------------------


STAY_JOINS: list[Callable[[Node, Node], list[Node]]] = [
    lambda s, b: [gn.stack([s[1], s[0], s[2]])],  # not in order
    lambda s, b: [gn.stack([s[0], s[2], s[1]])],
    lambda s, b: [gn.stack([s[0], s[0], s[1]])],
    lambda s, b: [gn.stack([gn.sin(s[0]), gn.cos(s[1])])],  # not the same function
    lambda s, b: [gn.stack([gn.sin(s[0]), s[1]])],
    lambda s, b: [gn.stack([s[0] * 2.0, s[1] * 3.0])],
    lambda s, b: [gn.stack([s[0] + b, s[1] + gn.sin(b)])],
    lambda s, b: [gn.stack([s[0] + b, s[1] + (b * 2.0)])],
    lambda s, b: [gn.stack([gn.sin(s[0]), gn.sin(s[1])], 1)],  # not along the first axis
    lambda s, b: [gn.stack([p := gn.sin(s[0]), gn.sin(s[1])]), p],  # p would be computed twice
    lambda s, b: [gn.stack([p := gn.sin(s[0]), gn.sin(s[1])]), gn.tanh(p)],
    lambda s, b: [gn.concatenate([gn.sin(s[0][:1]), gn.sin(s[1])])],  # of different arrays
]  # fmt: skip


class TestBatch:
    source = matrix(3, 2, 4)
    bias = weights(4)

    def test_a_bias_is_added_once(self) -> None:
        pieces = [gn.tanh(self.source[t] + self.bias) * 2.0 for t in range(3)]
        before = Graph([gn.stack(pieces)])
        after = passes.batch(before)
        assert ops_of(before)["Tanh"] == 3
        found = ops_of(after)
        assert (found["Add"], found["Tanh"], found["Multiply"], found["Stack"], len(after)) == (1, 1, 1, 0, 9)
        same_values(before, after)

    def test_a_join_of_all_slices_is_the_array(self) -> None:
        flat = matrix(6, 4)
        for node in (gn.stack([self.source[t] for t in range(3)]),
                     gn.concatenate([flat[:1], flat[1:5], flat[5:]])):  # fmt: skip
            before = Graph([node])
            after = passes.batch(before)
            assert not {"Stack", "Concatenate", "Slice"} & set(ops_of(after))
            same_values(before, after)

    def test_outputs_of_a_stacked_net_have_their_bias_added_once(self) -> None:
        before = stacked(of_net(rnn.Elman, 4, "cost"))
        after = passes.batch(before)
        assert count(after, "Add") < count(before, "Add")
        assert count(after, "Stack") == 0
        same_values(before, after)

    def test_what_is_not_one_function_of_one_array_stays(self) -> None:
        for build in STAY_JOINS:
            before = Graph(build(self.source, self.bias), [self.source])
            after = passes.batch(before)
            assert ops_of(after) == ops_of(before)
            same_values(before, after)


# -- expand --------------------------------------------------------------------------------------------------


SOFTMAXES: list[Callable[[Node], Node]] = [
    gn.softmax, lambda z: gn.softmax(z, 0), gn.log_softmax, lambda z: gn.log_softmax(z, 0), gn.logsumexp,
    lambda z: gn.softmax_cross_entropy(z, [1, 0, 3]),
    lambda z: gn.softmax_cross_entropy(z, np.full((3, 4), 0.25)),
]  # fmt: skip


STAY_WHOLE: list[Callable[[Node], Node]] = [lambda z: gn.exp(z) / gn.sum(gn.exp(z), 1, keepdims=True), gn.softplus,
lambda z: gn.softmax(z[:0]), lambda z: gn.squared_error(z, z + 1.0)]  # fmt: skip


class TestExpand:
    def test_the_softmax_family_becomes_loops_and_reductions(self) -> None:
        for build in SOFTMAXES:
            before = Graph([build(x)], [x])
            after = passes.expand(before)
            loops = {"Sum", "Max", "Exp", "Log", "Divide", "Subtract", "Add", "Multiply", "Negative", "Equal", "Where",
                     "OneHot", "BroadcastTo", "Reshape", "Fill", "Input", "Constant"}  # fmt: skip
            assert set(ops_of(after)) <= loops
            assert not set(ops_of(before)) <= loops
            same_values(before, after)

    def test_the_exponentials_of_a_loss_and_its_gradient_are_one(self) -> None:
        z = matrix(3, 4)
        cost = gn.mean(gn.softmax_cross_entropy(z, [1, 0, 3]))
        graph = passes.merge(passes.expand(Graph([cost, *gn.gradient(cost, z)])))
        assert (count(graph, "Exp"), count(graph, "Max")) == (1, 1)

    def test_all_else_stays(self) -> None:
        for build in STAY_WHOLE:
            graph = Graph([build(x)], [x])
            assert passes.expand(graph).outputs == graph.outputs


# -- fuse ----------------------------------------------------------------------------------------------------


class TestFuse:
    def test_a_chain_and_its_branches_are_one_group(self) -> None:
        h = gn.tanh(x * y + 1.0)
        graph = passes.fuse(Graph([gn.sin(h) * gn.cos(h)]))
        (group,) = graph.groups
        assert {n.op.name for n in group.nodes} == {"Multiply", "Add", "Tanh", "Sin", "Cos"}
        assert group.outputs == graph.outputs

    def test_what_is_read_elsewhere_is_an_output_of_its_group(self) -> None:
        h = gn.tanh(x)
        total, last = gn.sum(h), gn.exp(h)
        graph = passes.fuse(Graph([total, last, h]))
        (group,) = graph.groups
        assert set(group.outputs) == {h, last}

    def test_a_product_or_a_sum_comes_between(self) -> None:
        for between in (lambda h: h @ weights(4, 4), lambda h: gn.sum(h, 0, keepdims=True) * h):
            graph = passes.fuse(Graph([gn.exp(between(gn.tanh(x)))]))
            groups = [{n.op.name for n in group.nodes} for group in graph.groups]
            assert len(groups) == 2
            assert not any({"Tanh", "Exp"} <= names for names in groups)

    def test_a_long_chain_is_cut(self) -> None:
        h = x
        for _ in range(500):
            h = gn.tanh(h)
        groups = passes.fuse(Graph([h])).groups
        assert 500 / 64 <= len(groups) <= 500 / 16
        assert max(len(group.nodes) for group in groups) <= 64

    def test_every_node_has_a_group_that_stores_it_or_is_computed_where_it_is_read(self) -> None:
        """And values that a group reads are leaves, stored by another, or no elementwise nodes at all."""
        graph, _ = passes.optimize(of_net(rnn.LSTM, 4, "Gv"))
        stored = {node for group in graph.groups for node in group.outputs}
        computed = {node for group in graph.groups for node in group.nodes}
        assert set(graph.outputs) & computed <= stored
        for group in graph.groups:
            own = set(group.nodes)
            outside = {source for node in group.nodes for source in node.inputs} - own
            assert not [s for s in outside if s in computed and s not in stored]
        assert {n for n in graph.order if n.op.name in ("Tanh", "Sigmoid", "Multiply")} <= computed

    def test_the_graph_is_the_same(self) -> None:
        before = of_net(rnn.LSTM, 3, "cost")
        after = passes.fuse(before)
        assert after.order == before.order
        assert after.groups
        assert not before.groups
