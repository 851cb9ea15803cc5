"""Matrices over all parameters, given by their products, and estimates of their properties.

linear_operator  Hessian, Gauss-Newton matrix, Jacobian, Fisher matrix, as SciPy's LinearOperator
estimates        trace and diagonal, from products with random vectors
spectrum         leading eigenvalues, and the density of all of them
"""
