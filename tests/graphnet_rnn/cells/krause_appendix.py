"""Krause 2015, appendix 7.1–7.4: derivatives of LSTM and mLSTM as he derived them by hand, in plain NumPy.

All is in his notation: columns; W[a, b] leads *to a from b* and is applied as W b. Letters: i (the input I), h (H_in,
or H_out where a weight comes from it), omega, phi, rho (input, forget and output gate), m (M), o (O before the
softmax). One sequence at a time; lists run over the time steps, from t = 1 at index 0, and at t = 0 all is zero.

Where the print is wrong it is so in one thing: (7.2)–(7.4), and (7.30)–(7.32), print `R(ω(t)) = R(W_ωi) I(t) + ...`,
and the same for φ and ρ, without the derivative of the sigmoid. What stands there is R of the gate's input, R(ω_in(t)).
(7.5)–(7.6) and (7.33)–(7.34) read R of the gate itself, which is ω ⊙ (1 − ω) ⊙ R(ω_in); the backward pass has
this factor, in (7.17)–(7.19) and (7.50)–(7.52). Smaller: (7.28) lacks its last parenthesis; ∂E/∂O(t) = O(t) − γ(t)
is the derivative for what the softmax reads, where O(t) on the right is what it gives; and ξ, said to be
W_mh H(t − 1), is W_mh H_out(t − 1), as (7.28) and (7.41) have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = Mapping[tuple[str, str], Array]
Passed = dict[str, list[Array]]  # a quantity's values, step by step
GATES = ("omega", "phi", "rho")


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def softmax(a: Array) -> Array:
    e = np.exp(a - a.max())
    return e / e.sum()


def before(passed: Passed, name: str, t: int, like: Array) -> Array:
    """The quantity at the step before; zero before the first."""
    return passed[name][t - 1] if t else np.zeros_like(like)


def keep(passed: Passed, **values: Array) -> None:
    for name, value in values.items():
        passed.setdefault(name, []).append(value)


# ---- forward: algorithms 2 and 7 ----------------------------------------------------------------------------


def forward(W: Weights, inputs: Sequence[Array]) -> Passed:
    """Algorithm 2; algorithm 7 where there are weights W_mi. `y` is the softmax of O."""
    multiplicative = ("m", "i") in W
    passed: Passed = {}
    zero = np.zeros(len(W["h", "i"]))
    for t, I in enumerate(inputs):
        H, S = before(passed, "H_out", t, zero), before(passed, "H_state", t, zero)
        source, read = "h", H
        if multiplicative:
            chi, xi = W["m", "i"] @ I, W["m", "h"] @ H
            source, read = "m", chi * xi
            keep(passed, chi=chi, xi=xi, M=read)
        total = {k: W[k, "i"] @ I + W[k, source] @ read for k in ("h", *GATES)}
        omega, phi, rho = (sigmoid(total[k]) for k in GATES)
        S = omega * total["h"] + S * phi
        zeta = S * rho
        H = np.tanh(zeta)
        O = W["o", "h"] @ H
        keep(
            passed,
            H_in=total["h"],
            omega_in=total["omega"],
            phi_in=total["phi"],
            rho_in=total["rho"],
            omega=omega,
            phi=phi,
            rho=rho,
        )
        keep(passed, H_state=S, zeta=zeta, H_out=H, O=O, y=softmax(O))
    return passed


# ---- R-forward: 7.1 and 7.3 --------------------------------------------------------------------------------


def r_forward(W: Weights, V: Weights, inputs: Sequence[Array], passed: Passed) -> Passed:
    """R of every quantity along the direction V, (7.1)–(7.8); (7.28)–(7.36) where there are weights W_mi."""
    multiplicative = ("m", "i") in W
    R: Passed = {}
    zero = np.zeros(len(W["h", "i"]))
    for t, I in enumerate(inputs):
        H, R_H = before(passed, "H_out", t, zero), before(R, "H_out", t, zero)
        S, R_S = before(passed, "H_state", t, zero), before(R, "H_state", t, zero)
        now = {name: values[t] for name, values in passed.items()}
        source, read, R_read = "h", H, R_H
        if multiplicative:
            R_chi = V["m", "i"] @ I
            R_xi = V["m", "h"] @ H + W["m", "h"] @ R_H
            R_M = R_chi * (W["m", "h"] @ H) + W["m", "i"] @ I * R_xi  # (7.28)
            keep(R, chi=R_chi, xi=R_xi, M=R_M)
            source, read, R_read = "m", now["M"], R_M
        # (7.1)–(7.4); (7.29)–(7.32): of what H_in and the gates read
        R_in = {k: V[k, "i"] @ I + V[k, source] @ read + W[k, source] @ R_read for k in ("h", *GATES)}
        R_omega, R_phi, R_rho = (
            now[k] * (1 - now[k]) * R_in[k] for k in GATES
        )  # missing in print, see above
        R_S = now["H_in"] * R_omega + R_in["h"] * now["omega"] + R_phi * S + now["phi"] * R_S  # (7.5); (7.33)
        R_zeta = R_S * now["rho"] + now["H_state"] * R_rho  # (7.6); (7.34)
        R_H = R_zeta * (1 - now["H_out"] * now["H_out"])  # (7.7); (7.35)
        R_O = W["o", "h"] @ R_H + V["o", "h"] @ now["H_out"]  # (7.8); (7.36)
        keep(
            R,
            H_in=R_in["h"],
            omega_in=R_in["omega"],
            phi_in=R_in["phi"],
            rho_in=R_in["rho"],
            omega=R_omega,
            phi=R_phi,
            rho=R_rho,
        )
        keep(R, H_state=R_S, zeta=R_zeta, H_out=R_H, O=R_O)
    return R


# ---- backward: 7.2 and 7.4 ---------------------------------------------------------------------------------


def output_errors(passed: Passed, targets: Sequence[int]) -> list[Array]:
    """∂E/∂O(t) = O(t) − γ(t), for the gradient."""
    return [y - np.eye(len(y))[target] for y, target in zip(passed["y"], targets, strict=True)]


def output_curvatures(passed: Passed, R: Passed) -> list[Array]:
    """∂E/∂O(t) = H_σ(O(t)) R(O(t)), for the R-backward pass: what comes back is the Gauss-Newton product."""
    return [(np.diag(y) - np.outer(y, y)) @ R_O for y, R_O in zip(passed["y"], R["O"], strict=True)]


def memory_backward(passed: Passed, dH_out: Array, after: Mapping[str, Array], t: int) -> dict[str, Array]:
    """(7.11)–(7.19); (7.44)–(7.52): through the cell, at one step. after: the derivatives at t + 1."""
    now = {name: values[t] for name, values in passed.items()}
    d = {"H_out": dH_out}
    d["zeta"] = d["H_out"] * (1 - now["H_out"] * now["H_out"])  # (7.11); (7.44)
    d["rho"] = d["zeta"] * now["H_state"]  # (7.12); (7.45)
    d["H_state"] = d["zeta"] * now["rho"]
    if after:
        d["H_state"] = d["H_state"] + passed["phi"][t + 1] * after["H_state"]  # (7.13); (7.46)
    d["phi"] = before(passed, "H_state", t, dH_out) * d["H_state"]  # (7.14); (7.47)
    d["omega"] = now["H_in"] * d["H_state"]  # (7.15); (7.48)
    d["H_in"] = now["omega"] * d["H_state"]  # (7.16); (7.49)
    for k in GATES:
        d[f"{k}_in"] = d[k] * now[k] * (1 - now[k])  # (7.17)–(7.19); (7.50)–(7.52)
    return d


#: What the weights to h and to the gates lead to.
ENDS = {"h": "H_in", "omega": "omega_in", "phi": "phi_in", "rho": "rho_in"}


def lstm_backward(
    W: Weights, inputs: Sequence[Array], passed: Passed, dO: Sequence[Array]
) -> tuple[dict[tuple[str, str], Array], Passed]:
    """(7.9)–(7.27): ∂E/∂W for every W, and ∂E for every quantity at every step."""
    gradient = {key: np.zeros_like(w) for key, w in W.items()}
    steps: Passed = {}
    after: dict[str, Array] = {}
    for t in reversed(range(len(inputs))):
        dH = W["o", "h"].T @ dO[t]
        if after:
            dH = dH + sum(W[k, "h"].T @ after[end] for k, end in ENDS.items())  # (7.10)
        d = memory_backward(passed, dH, after, t)
        gradient["o", "h"] += np.outer(dO[t], passed["H_out"][t])  # (7.9)
        for k, end in ENDS.items():
            if t:
                gradient[k, "h"] += np.outer(d[end], passed["H_out"][t - 1])  # (7.20)–(7.23)
            gradient[k, "i"] += np.outer(d[end], inputs[t])  # (7.24)–(7.27)
        keep(steps, O=dO[t], **d)
        after = d
    return gradient, {name: values[::-1] for name, values in steps.items()}


def mlstm_backward(
    W: Weights, inputs: Sequence[Array], passed: Passed, dO: Sequence[Array]
) -> tuple[dict[tuple[str, str], Array], Passed]:
    """(7.37)–(7.60): ∂E/∂W for every W, and ∂E for every quantity at every step."""
    gradient = {key: np.zeros_like(w) for key, w in W.items()}
    steps: Passed = {}
    after: dict[str, Array] = {}
    for t in reversed(range(len(inputs))):
        dH = W["o", "h"].T @ dO[t]
        if after:
            dH = dH + W["m", "h"].T @ after["xi"]  # (7.43)
        d = memory_backward(passed, dH, after, t)
        d["M"] = sum(W[k, "m"].T @ d[end] for k, end in ENDS.items())  # (7.38)
        d["chi"] = d["M"] * passed["xi"][t]  # (7.39)
        d["xi"] = d["M"] * passed["chi"][t]  # (7.40)
        gradient["o", "h"] += np.outer(dO[t], passed["H_out"][t])  # (7.37)
        if t:
            gradient["m", "h"] += np.outer(d["xi"], passed["H_out"][t - 1])  # (7.41)
        gradient["m", "i"] += np.outer(d["chi"], inputs[t])  # (7.42)
        for k, end in ENDS.items():
            gradient[k, "m"] += np.outer(d[end], passed["M"][t])  # (7.53)–(7.56)
            gradient[k, "i"] += np.outer(d[end], inputs[t])  # (7.57)–(7.60)
        keep(steps, O=dO[t], **d)
        after = d
    return gradient, {name: values[::-1] for name, values in steps.items()}
