"""Derivatives as graphs.

gradient     backward (Jᵀu), rop (Jv), gradient
curvature    Hessian and Gauss-Newton products, composed of those two
per_example  the gradient of each case
jacobian     whole Jacobians, by a walk for each row or column
"""
