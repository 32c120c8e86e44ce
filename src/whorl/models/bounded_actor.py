"""An actor for bounded actions and critics of state and action, without computing anything: which parameters there are.

Each is a tower of its own: the actor ``policy`` over the encoded observation, critics ``critic/0``, ``critic/1``, ...
over the encoded observation with the scaled action beside it.
"""

from __future__ import annotations

from whorl.models.config import NetworkConfig
from whorl.models.encoding import Encoder
from whorl.models.heads import BoundedHead
from whorl.models.network import Parameter, tower
from whorl.types import EnvSpec, Field

_ACTOR_GAIN, _CRITIC_GAIN = 0.01, 1.0


class BoundedActor:
    """The description of an actor and its critics."""

    recurrent = False
    state: tuple[Field, ...] = ()

    def __init__(self, config: NetworkConfig, env: EnvSpec, per_action: int, critics: int) -> None:
        self.config = config
        self.encoder = Encoder(env.observation, normalise=False)
        self.head = BoundedHead(env.action, per_action)
        self.critic_names = tuple(f"critic/{i}" for i in range(critics))
        width, hidden = self.encoder.width, config.hidden
        self.actor_parameters: tuple[Parameter, ...] = tuple(
            tower("policy", width, hidden, self.head.width, _ACTOR_GAIN)
        )
        self.critic_parameters: tuple[Parameter, ...] = tuple(
            parameter
            for name in self.critic_names
            for parameter in tower(name, width + self.head.size, hidden, 1, _CRITIC_GAIN)
        )

    @property
    def output_width(self) -> int:
        """Of the actor."""
        return self.head.width
