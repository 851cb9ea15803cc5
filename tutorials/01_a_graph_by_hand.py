# %% [markdown]
# # 1 · A graph by hand
#
# *Reading time: 10 minutes.*

# %%

import graphnet as gn
import viz

from exercises import check

X = gn.parameter([[1.0, 2.0], [3.0, 4.0]], name="X")
viz.draw(gn.sum(X))

# %% [markdown]
# ### Exercise 1

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(1, answer_1, solution=1, wrong=[2], hint="one")

# %% [markdown]
# ### Exercise 2

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(2, answer_2, solution=1, wrong=[2], hint="one")
