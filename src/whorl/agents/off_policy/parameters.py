"""Several networks in one flat buffer, without torch: what actors need first, what only the learner needs behind it.

[ fields of the weights | acting parameters | learner's parameters ]
  '------- weights of actors ------------'
                          '-- parameters, with one gradient --------'
"""

from __future__ import annotations

from whorl.models.network import Parameter
from whorl.types import Field, Layout


class ParameterPlan:
    """Which parameters there are, and in which order. Parts are contiguous, so that each phase's optimiser and each
    target network acts on one slice of the flat tensor."""

    def __init__(
        self, fields: tuple[Field, ...], acting: tuple[Parameter, ...], learners: tuple[Parameter, ...] = ()
    ) -> None:
        self.fields = fields
        self.parameters = acting + learners
        self.weights = Layout(fields + tuple(parameter.field for parameter in acting))
        self.everything = Layout(fields + tuple(parameter.field for parameter in self.parameters))
        self._flat = Layout(tuple(parameter.field for parameter in self.parameters))

    @property
    def size(self) -> int:
        """Numbers in the flat tensor of parameters, padding included."""
        return self._flat.size_bytes // 4

    def part(self, *prefixes: str) -> slice:
        """Where the parameters whose names begin with one of these lie in the flat tensor."""
        chosen = [i for i, parameter in enumerate(self.parameters) if parameter.name.startswith(prefixes)]
        if not chosen or chosen != list(range(chosen[0], chosen[-1] + 1)):
            raise ValueError(f"the parameters {prefixes} are not one contiguous part of {self.names}")
        starts = (*self._flat.offsets, self._flat.size_bytes)
        return slice(starts[chosen[0]] // 4, starts[chosen[-1] + 1] // 4)

    @property
    def names(self) -> list[str]:
        """Of all parameters, in order."""
        return [parameter.name for parameter in self.parameters]
