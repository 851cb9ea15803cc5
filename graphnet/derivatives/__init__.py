"""Derivatives as graphs.

gradient     backward (u' J), rop (J v), gradient
curvature    Hessian and Gauss-Newton products, composed of those two
per_example  the gradient of each case
jacobian     whole Jacobians, a walk for each row or column
"""
