"""Matrices over all parameters that are known by their products alone, and what is found out of these.

linear_operator  Hessian, Gauss-Newton matrix, Jacobian, Fisher matrix, as SciPy's LinearOperator
estimates        trace and diagonal, from products with random vectors
spectrum         leading eigenvalues, and the density of all of them
"""
