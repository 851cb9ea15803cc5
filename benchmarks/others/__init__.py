"""Open issues about recurrent nets of other engines, as small programs of our own.

cases       what each is about, its arrays, and its cost as a plain loop
ours        the same in graphnet
jax_peer    and in JAX
torch_peer  and in PyTorch
check       derivatives beside finite differences
worker      a process for each program, which may be refused or take too long
"""
