"""Control of an arm by a recurrent network (Sutskever 2013, chapter 6).

arm         the plant: two joints in a plane, as nodes
controller  a recurrent controller, and the closed loop with the plant
ilqr        optimal commands for any plant of nodes: plant, its derivatives; riccati, its backward pass
optimum     minimum cost of a task, by iLQR
tasks       reaching, holding a posture, and reaching with delay, disturbances and noise
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.experiments.control.arm import Arm as Arm
    from graphnet_rnn.experiments.control.controller import (
        ClosedLoop as ClosedLoop,
        Controller as Controller,
        Trajectories as Trajectories,
    )
    from graphnet_rnn.experiments.control.ilqr import ILQR as ILQR, Plan as Plan
    from graphnet_rnn.experiments.control.movements import Movements as Movements
    from graphnet_rnn.experiments.control.optimum import optimum as optimum, planned as planned
    from graphnet_rnn.experiments.control.tasks import (
        CenterOut as CenterOut,
        ControlTask as ControlTask,
        DelayDisturbanceNoise as DelayDisturbanceNoise,
        Postural as Postural,
    )
