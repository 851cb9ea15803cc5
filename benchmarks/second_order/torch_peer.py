"""PyTorch: Hessian-free written with torch.func, the same in compiled code, and with R rules derived by hand.

"loop" runs forward in Python, "rnn" in PyTorch's own layer. Ways to multiply by J:
jvp        torch.func.jvp, which runs forward again for each product
linearize  torch.func.linearize, which traces once in a step
twice      Jv as the derivative of Jᵀu by u
dual       dual numbers through a run forward that autograd records for Jᵀ, anew for each product
All but the last keep Jᵀ (torch.func.vjp, or autograd's graph) from one run forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.networks.candidate import Absent
from benchmarks.second_order.problem import NAMES, Arrays, Contender, Data, Problem

Tensor = Any
Weights = dict[str, Any]

FUNC = tuple(f"{net}, {way}" for net in ("rnn", "loop") for way in ("jvp", "dual", "twice", "linearize"))


def prepare(options: dict[str, Any]) -> None:
    """Sets the number of threads of the process."""
    if options["limited"]:
        torch.set_num_threads(options["threads"])


class Torch(Contender):
    """CG's vectors are float64, as ours are: rounding would else be most of the difference after 50 steps."""

    def __init__(self, problem: Problem, data: Data, way: str) -> None:
        self.problem, self.way = problem, way
        self.x, self.t = torch.tensor(data.inputs), torch.tensor(data.targets)
        self.zeros = torch.zeros(problem.batch, problem.units)
        self.weights = {name: torch.tensor(data.weights[name]) for name in NAMES}
        self.direction = self._flat({name: torch.tensor(data.direction[name]) for name in NAMES})
        self.start = self._flat(self.weights)

    # -- vectors -----------------------------------------------------------------------------

    def _flat(self, tensors: Weights) -> Tensor:
        return torch.cat([tensors[name].flatten() for name in NAMES]).double()

    def _split(self, vector: Tensor) -> Weights:
        shapes = [w.shape for w in self.weights.values()]
        pieces = vector.float().split([shape.numel() for shape in shapes])
        return {name: p.view(shape) for name, p, shape in zip(NAMES, pieces, shapes, strict=True)}

    def named(self, vector: Any) -> Arrays:
        return {name: tensor.numpy() for name, tensor in self._split(vector).items()}

    # -- the network -------------------------------------------------------------------------

    def _hidden(self, w: Weights) -> Tensor:
        """h_t, (time, batch, units)"""
        if self.way.startswith("rnn"):
            weights = [w["W_xh"].T, w["W_hh"].T, w["b_h"], torch.zeros_like(w["b_h"])]
            settings = (True, 1, 0.0, False, False, False)
            return torch.rnn_tanh(self.x, self.zeros[None], weights, *settings)[0]
        from_x = torch.addmm(w["b_h"], self.x.flatten(0, 1), w["W_xh"]).view(*self.x.shape[:2], -1)
        h, hs = self.zeros, []
        for a in from_x.unbind(0):
            h = torch.tanh(torch.addmm(a, h, w["W_hh"]))
            hs.append(h)
        return torch.stack(hs)

    def _outputs(self, w: Weights) -> tuple[Tensor, ...]:
        """Outputs for the curvature: o, and with structural damping all h_t."""
        h = self._hidden(w)
        o = torch.addmm(w["b_o"], h[-1], w["W_ho"])
        return (o, h) if self.problem.structural else (o,)

    def _cost(self, w: Weights) -> Tensor:
        return ((self._outputs(w)[0] - self.t) ** 2).sum() / self.problem.batch

    def _curved(self, outputs: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Of h: structural damping is Jᵀ diag(1 - h²) J for J = ∂a/∂w, hence Jᵀ diag(1 / (1 - h²)) J for J = ∂h/∂w."""
        of_o = tangents[0] * (2 / self.problem.batch)
        if not self.problem.structural:
            return (of_o,)
        weight = self.problem.structural / self.problem.batch
        return of_o, tangents[1] * (weight / (1 - outputs[1] ** 2))

    # -- parts of a step ---------------------------------------------------------------------

    def _loss(self, w: Tensor) -> float:
        self.losses += 1
        with torch.no_grad():
            return float(self._cost(self._split(w)))

    def gradient(self) -> Tensor:
        w = {name: tensor.detach().requires_grad_() for name, tensor in self.weights.items()}
        pieces = torch.autograd.grad(self._cost(w), list(w.values()))
        return self._flat(dict(zip(w, pieces, strict=True)))

    def linearized(self) -> Callable[[], Any]:
        product = self._curvature()
        return lambda: self._flat(product(self._split(self.direction)))

    def _curvature(self) -> Callable[[Weights], Weights]:
        way = self.way.split(", ")[-1]
        if way in ("dual", "twice"):
            return self._dual() if way == "dual" else self._twice()
        w = self.weights
        outputs, pull = torch.func.vjp(self._outputs, w)[:2]
        if way == "linearize":
            push = torch.func.linearize(self._outputs, w)[1]
        else:

            def push(v: Weights) -> tuple[Tensor, ...]:
                tangents: tuple[Tensor, ...] = torch.func.jvp(self._outputs, (w,), (v,))[1]
                return tangents

        def product(v: Weights) -> Weights:
            found: Weights = pull(self._curved(outputs, push(v)))[0]
            return found

        return product

    def _dual(self) -> Callable[[Weights], Weights]:
        forward: Any = torch.autograd.forward_ad
        w = {name: tensor.detach().requires_grad_() for name, tensor in self.weights.items()}

        def product(v: Weights) -> Weights:
            with forward.dual_level():
                both = {name: forward.make_dual(w[name], v[name]) for name in w}
                outputs, tangents = zip(*map(forward.unpack_dual, self._outputs(both)), strict=True)
                with torch.no_grad():
                    curved = self._curved(outputs, tangents)
                return dict(zip(w, torch.autograd.grad(outputs, list(w.values()), curved), strict=True))

        return product

    def _twice(self) -> Callable[[Weights], Weights]:
        w = {name: tensor.detach().requires_grad_() for name, tensor in self.weights.items()}
        leaves = list(w.values())
        outputs = self._outputs(w)
        u = [torch.zeros_like(o, requires_grad=True) for o in outputs]
        pulled = torch.autograd.grad(outputs, leaves, u, create_graph=True)
        values = tuple(o.detach() for o in outputs)

        def product(v: Weights) -> Weights:
            tangents = torch.autograd.grad(pulled, u, list(v.values()), retain_graph=True)
            curved = self._curved(values, tangents)
            return dict(zip(w, torch.autograd.grad(outputs, leaves, curved, retain_graph=True), strict=True))

        return product

    # -- the step ----------------------------------------------------------------------------

    def step(self, cg_steps: int) -> Any:
        """Conjugate gradient from zero, and a backtracking line search."""
        self.products = self.losses = 0
        b = -self.gradient()
        before = self._loss(self.start)
        delta = self._conjugate_gradient(self._curvature(), b, cg_steps)
        scale, slope = 1.0, -float(b @ delta)
        for _ in range(60):
            if self._loss(self.start + scale * delta) <= before + 0.01 * scale * slope:
                break
            scale *= 0.8
        else:
            raise ValueError("the line search found no step")
        return scale * delta

    def _conjugate_gradient(self, product: Callable[[Weights], Weights], b: Tensor, steps: int) -> Tensor:
        delta, r, p = torch.zeros_like(b), b.clone(), b.clone()
        rr = r @ r
        for _ in range(steps):
            a = self._flat(product(self._split(p))) + self.problem.damping * p
            self.products += 1
            alpha = rr / (p @ a)
            delta = delta + alpha * p
            r = r - alpha * a
            before, rr = rr, r @ r
            p = r + (rr / before) * p
        return delta


class Compiled(Torch):
    """Both passes of a product in one function for torch.compile, which understands jvp and vjp."""

    def __init__(self, problem: Problem, data: Data, way: str) -> None:
        super().__init__(problem, data, way)

        def product(w: Weights, v: Weights) -> Weights:
            outputs, tangents = torch.func.jvp(self._outputs, (w,), (v,))[:2]
            found: Weights = torch.func.vjp(self._outputs, w)[1](self._curved(outputs, tangents))[0]
            return found

        self.compiled = torch.compile(product, dynamic=False)

    def _curvature(self) -> Callable[[Weights], Weights]:
        return lambda v: self.compiled(self.weights, v)


class ByHand(Torch):
    """R rules and backward rules of this one cell, with products over all time steps at once if possible.

    Such code has to be derived by hand for each cell.
    """

    def _curvature(self) -> Callable[[Weights], Weights]:
        w, x = self.weights, self.x.flatten(0, 1)
        with torch.no_grad():
            h = self._hidden(w)
        earlier = torch.cat([self.zeros[None], h[:-1]]).flatten(0, 1)
        e = 1 - h * h
        W_hh, W_hh_T = w["W_hh"], w["W_hh"].T.contiguous()
        weight, steps = self.problem.structural / self.problem.batch, range(h.shape[0])

        @torch.no_grad()
        def product(v: Weights) -> Weights:
            r_a = torch.addmm(v["b_h"], x, v["W_xh"]).addmm_(earlier, v["W_hh"]).view_as(h)
            r_h = torch.empty_like(h)
            for t in steps:
                if t:
                    r_a[t].addmm_(r_h[t - 1], W_hh)
                torch.mul(r_a[t], e[t], out=r_h[t])
            r_o = torch.addmm(v["b_o"], h[-1], v["W_ho"]).addmm_(r_h[-1], w["W_ho"])
            of_o = r_o * (2 / self.problem.batch)
            g = r_h * weight if weight else torch.empty_like(h)  # becomes the cotangents of a
            for t in reversed(steps):
                back = torch.mm(g[t + 1], W_hh_T) if t + 1 < len(steps) else torch.mm(of_o, w["W_ho"].T)
                if weight:
                    g[t].addcmul_(back, e[t])
                else:
                    torch.mul(back, e[t], out=g[t])
            flat = g.flatten(0, 1)
            return {
                "W_xh": x.T @ flat,
                "W_hh": earlier.T @ flat,
                "b_h": flat.sum(0),
                "W_ho": h[-1].T @ of_o,
                "b_o": of_o.sum(0),
            }

        return product


def ways(contender: str, problem: Problem, data: Data, options: dict[str, Any]) -> tuple[str, ...]:
    """The ways of this contender; raises Absent if it has none."""
    if contender == "torch.func":
        return FUNC
    if contender == "torch.compile" and data.time > options["compiled_steps"]:
        # The whole loop is compiled, in time that grows with its length.
        raise Absent(f"{data.time} time steps, more than {options['compiled_steps']} (--compiled-steps)")
    return ("loop",)


def make(contender: str, problem: Problem, data: Data, way: str, options: dict[str, Any]) -> Contender:
    kinds = {"torch.func": Torch, "torch.compile": Compiled, "torch by hand": ByHand}
    return kinds[contender](problem, data, way)
