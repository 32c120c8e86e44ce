"""Lanes in a vector form: one call steps all copies, and the rows are those of scalar copies."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.containment import CONTAINED, is_users_interrupt
from whorl.envs.contract import LaneState, Outcome, Rows
from whorl.envs.deadline import UNKNOWN_S, NoClock, StepClock, StepDeadline
from whorl.envs.door import RefusedValue
from whorl.envs.forms import VectorForm, bring_back, make_form, saved_states
from whorl.envs.lane import MAX_CONSECUTIVE_FAULTS, Refused
from whorl.envs.row_block import RowBlock
from whorl.errors import EnvironmentFault, last_line
from whorl.ops.keys import reset_seed
from whorl.types import Array, EnvSpec


class VectorLanes:
    """Lanes of one vector form. When it raises, all its lanes have a fault: nobody can tell whose it was. Where it can
    tell, only that lane has."""

    def __init__(
        self,
        config: EnvConfig,
        spec: EnvSpec,
        lanes: range,
        seed: int,
        clock: StepClock | None = None,
        form: VectorForm | None = None,
        block: RowBlock | None = None,
    ) -> None:
        self.spec, self.lanes, self.exact = spec, lanes, True
        self.episodes = [0] * len(lanes)
        self.faults: deque[str] = deque(maxlen=20)
        self.fault_count = 0
        self._config, self._seed, self._clock, self._faults_in_a_row = config, seed, clock or NoClock(), 0
        self._block = block or RowBlock(spec, len(lanes))
        self._form = form or self._new_form("other")
        self._clock.enter("other")
        self._steps = np.zeros(len(lanes), np.int64)
        self._rows_to_cap = spec.max_episode_steps
        self._actions = np.zeros((len(lanes), *spec.action.shape), spec.action.dtype)
        self._raised_in_a_row: Counter[int] = Counter()
        self._deadline = StepDeadline(getattr(self._form, "longest_step_s", config.step_timeout_s))

    def start(self, states: Sequence[LaneState]) -> Generator[Any, None, Rows]:
        """Reset every lane, and step those that were amid an episode up to where they stood."""
        yield from ()
        longest = max(len(state.actions) for state in states)
        self._clock.enter("environment", self._deadline.seconds * (1 + longest), self.lanes[0])
        try:
            self._restore(states)
        except RefusedValue as reason:
            raise self._refusal(self.lanes[0], reason) from None
        except CONTAINED as error:
            if is_users_interrupt(error) or isinstance(error, EnvironmentFault):
                raise
            self._restore_nothing(states, error)
        self._cap_moved()
        self._check([0.0] * len(self.lanes))
        return self._block.rows

    def send(self, actions: Array) -> None:
        """Keep the actions; the form steps in ``receive``, so rows stay as they are until then."""
        self._actions[...] = actions

    def arrival(self) -> Generator[Any, None, None]:
        """Nothing to wait for."""
        yield from ()

    def receive(self) -> Outcome:
        """Step every lane with one call."""
        block = self._block
        block.clear()
        began = [index for index, resets in enumerate(block.resetting) if resets]
        for index in began:
            self.episodes[index] += 1
        started_s = time.perf_counter()
        self._clock.enter("environment", self._deadline.seconds, self.lanes[0])
        try:
            rewards, terminated, truncated = self._form.step(self._actions, {i: self._seed_of(i) for i in began})
            raised = self._contain_raised(began) if self._form.raised or self._raised_in_a_row else []
        except RefusedValue as reason:
            raise self._refusal(self.lanes[0], reason) from None
        except CONTAINED as error:
            if is_users_interrupt(error) or isinstance(error, EnvironmentFault):
                raise
            self._rebuild(error)
            return block.outcome
        self._deadline.saw(time.perf_counter() - started_s)
        self._faults_in_a_row = 0
        self._steps += 1
        self._rows_to_cap -= 1
        if began or raised:
            self._begin_rows([*began, *raised], rewards, terminated, truncated)
            block.outcome.fault[raised] = True
        if self._rows_to_cap <= 0:
            truncated = truncated | (self._steps >= self.spec.max_episode_steps)
            self._cap_moved()
        ended = terminated | truncated
        if b"\1" in ended.tobytes():  # for small arrays much quicker than `any`
            for index in np.flatnonzero(ended).tolist():
                block.ended(index, bool(terminated[index]), bool(truncated[index]), self._form.metrics[index])
        self._check(rewards)
        return block.outcome

    def snapshots(self) -> list[bytes] | None:
        """Each lane's saved state, of a form that can tell; others are rebuilt by stepping again."""
        return saved_states(self._form, self.spec, self._steps)

    def close(self) -> None:
        """Close the form; never raises, never hangs."""
        self._form.close()

    def _seed_of(self, index: int, attempt: int = 0) -> int:
        return reset_seed(self._seed, self.lanes[index], self.episodes[index], attempt)

    def _restart(self, indices: Sequence[int], attempt: int = 0) -> None:
        """Reset copies for their lanes' episodes; one that raises is tried again with another seed."""
        while indices:
            self._form.restart({index: self._seed_of(index, attempt) for index in indices})
            indices, attempt = [*self._form.raised], attempt + 1
            for index in indices:
                self._note_raised(index, self._form.raised[index])

    def _contain_raised(self, began: list[int]) -> list[int]:
        """Begin an episode in each lane that raised; those whose step did, not their reset."""
        raised = dict(self._form.raised)
        for index in [index for index in self._raised_in_a_row if index not in raised]:
            del self._raised_in_a_row[index]
        episodes = list(self.episodes)
        try:
            for index, words in raised.items():
                self._note_raised(index, words)
                resets = index in began
                self.episodes[index] += not resets
                self._restart([index], attempt=int(resets))
        except CONTAINED:
            self.episodes = episodes  # whoever makes the form anew counts for all lanes
            raise
        return [index for index in raised if index not in began]

    def _note_raised(self, index: int, words: str) -> None:
        """Count a lane's fault, and give up when nothing but faults comes of it."""
        where = f"lane {self.lanes[index]}, episode {self.episodes[index]}, env step {self._steps[index]}"
        text = f"{self.spec.env_id}: {where}: {words}"
        self.faults.append(text)
        self.fault_count += 1
        self._raised_in_a_row[index] += 1
        times = self._raised_in_a_row[index]
        if times > MAX_CONSECUTIVE_FAULTS:
            raise EnvironmentFault(f"{text}; that was fault {times} without a good step in between")

    def _begin_rows(self, began: list[int], rewards: list[float], terminated: Array, truncated: Array) -> None:
        self._steps[began] = 0
        terminated[began] = truncated[began] = False
        for index in began:
            rewards[index] = 0.0
            self._block.began(index)
        self._cap_moved()

    def _cap_moved(self) -> None:
        """Rows until the cap can be reached at the earliest: looking at every count in every row would cost more."""
        self._rows_to_cap = self.spec.max_episode_steps - int(self._steps.max())

    def _check(self, rewards: list[float]) -> None:
        refused = self._block.check(self._form.door, rewards)
        if refused is not None:
            raise self._refusal(self.lanes[refused[0]], refused[1])

    def _refusal(self, lane: int, reason: RefusedValue) -> EnvironmentFault:
        index = lane - self.lanes[0]
        where = f"lane {lane}, episode {self.episodes[index]}, env step {self._steps[index]}"
        return Refused(self.spec.env_id, where, str(reason))

    def _restore(self, states: Sequence[LaneState]) -> None:
        """Every lane where the ledger says, as far as stepping again brings it there."""
        self.episodes = [state.episode for state in states]
        found = {index: state.snapshot for index, state in enumerate(states) if state.snapshot and not state.skip}
        saved = bring_back(self._form, self.spec, found)
        started_s = time.perf_counter()
        self._restart([index for index in range(len(self.lanes)) if index not in saved])
        self._deadline.saw(time.perf_counter() - started_s, steps=0)  # resets may take much longer than steps
        # Stepping others would move those that are back already.
        replayed = [] if saved else [index for index, state in enumerate(states) if self._is_replayed(state)]
        unended = self._replay(states, replayed)
        stepped = any(len(states[index].actions) for index in replayed)
        for index, state in enumerate(states):
            if state.observation is None and not state.skip and not stepped:
                self._block.began(index)  # reset already, and a reset may be slow
            else:
                self._steps[index] = saved.get(index, len(state.actions))
                self._settle(index, state, index in saved or (index in replayed and index in unended))

    def _restore_nothing(self, states: Sequence[LaneState], error: BaseException) -> None:
        """The form raised on the way: another one, where every lane that was amid an episode begins the next."""
        for index, state in enumerate(states):
            amid = state.observation is not None and not state.ended
            self.exact = self.exact and not amid and not state.skip
            self.episodes[index] = state.episode + (state.skip or int(amid))
        self._make_anew(error)
        for index, state in enumerate(states):
            if state.ended and state.observation is not None and not state.skip:
                self._block.restore_final(index, state.observation)
            else:
                self._block.began(index)

    def _is_replayed(self, state: LaneState) -> bool:
        amid = state.observation is not None and not state.ended
        return amid and not state.skip and (self.spec.restore != "none" or len(state.actions) == 0)

    def _replay(self, states: Sequence[LaneState], replayed: list[int]) -> set[int]:
        """Step the lanes' actions again so that all arrive together: a shorter episode is reset later.
        Returns the lanes that never ended on the way."""
        longest = max((len(states[index].actions) for index in replayed), default=0)
        unended = set(replayed)
        begins = {index: longest - len(states[index].actions) for index in replayed}
        actions = np.zeros_like(self._actions)
        over: set[int] = set()
        for row in range(longest):
            for index, begin in begins.items():
                if row >= begin:
                    actions[index] = states[index].actions[row - begin]
            # A copy that is not stepped for real is reset wherever it ended, and at its time.
            resets = {i: self._seed_of(i) for i in range(len(self.lanes)) if i in over or begins.get(i) == row + 1}
            _, terminated, truncated = self._form.step(actions, resets)
            over = {*np.flatnonzero(terminated | truncated).tolist()} - set(resets) | set(self._form.raised)
            unended -= {index for index in over if index in begins and row >= begins[index]}
        return unended

    def _settle(self, index: int, state: LaneState, arrived: bool) -> None:
        """After the replay: is each lane where the ledger says, or does it begin another episode?"""
        block = self._block
        if state.skip:
            self.exact = False
            self.episodes[index] += state.skip
        elif state.ended and state.observation is not None:
            block.restore_final(index, state.observation)
            return
        elif state.observation is not None:
            wanted = block.observation_of(state)
            arrived = arrived and all(
                mine.tobytes() == np.asarray(there).tobytes()
                for mine, there in zip(block.targets(index), wanted, strict=True)
            )
            if arrived:
                if len(state.actions) == 0:
                    block.began(index)
                return
            self.exact = False
            self.episodes[index] += 1
        self._restart([index])
        self._steps[index] = 0
        block.began(index)

    def _rebuild(self, error: BaseException) -> None:
        """The form raised in a step: another one, and an episode begins in every lane."""
        valid = [not resets for resets in self._block.resetting]
        for index, was_valid in enumerate(valid):
            self.episodes[index] += was_valid
        self._make_anew(error)
        self._cap_moved()
        for index, was_valid in enumerate(valid):
            self._block.began(index, fault=was_valid)
        self._check([0.0] * len(self.lanes))

    def _new_form(self, phase: str) -> VectorForm:
        """Users' constructors may take much longer than a step. ``phase``: "environment" if an episode is to blame."""
        self._clock.enter(phase, max(UNKNOWN_S, len(self.lanes) * self._config.step_timeout_s), self.lanes[0])
        return make_form(self._config, self.spec, self._block.blocks)

    def _make_anew(self, error: BaseException) -> None:
        """Another form in the place of one that raised, each copy at the start of its lane's episode. If that raises,
        again with other seeds; and give up when nothing but faults comes."""
        attempt = 0
        while True:
            text = f"{self.spec.env_id}: lanes {self.lanes[0]}..{self.lanes[-1]}: vector form raised {last_line(error)}"
            self.faults.append(text)
            self.fault_count += 1
            self._faults_in_a_row += 1
            if self._faults_in_a_row > MAX_CONSECUTIVE_FAULTS:
                raise EnvironmentFault(f"{text}; that was fault {self._faults_in_a_row} without a good step in between")
            self._form.close()
            try:
                self._form = self._new_form("environment")
                self._restart(range(len(self.lanes)), attempt)
                break
            except CONTAINED as again:
                if is_users_interrupt(again) or isinstance(again, EnvironmentFault):
                    raise
                error, attempt = again, attempt + 1
        self._steps[:] = 0
