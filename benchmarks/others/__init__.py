"""Open issues about recurrent nets of other engines, as small programs of our own.

cases       the issue of each case, its arrays, and its cost as a plain loop
ours        the same in graphnet
jax_peer    and in JAX
torch_peer  and in PyTorch
check       derivatives compared with finite differences
worker      a process for each program, which may fail or take too long
"""
