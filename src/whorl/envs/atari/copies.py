"""Any number of Atari consoles, stepped together by ALE's own vector interface.

ALE skips, pools, shrinks and stacks frames in C++. What is added here is what it has not: lives that end an episode but
not the game, the game's own score beside clipped rewards, and coming back to where a game stood.

A game begins with up to ``noop_max`` frames of nothing and a press of fire. Its console may be *loaded* for it: ALE
makes a new one from the ROM and a seed, which takes as long as some hundred steps. Or the game *follows* another on the
same console, which takes as long as ten; it is then decided by the seed of the last load and all that was done since.

After a lost life an episode *opens* with one step of fire (of nothing, where a game has no fire) in the same game, and
its stack of frames begins empty. Where such a step ends the game, a new one begins instead, and the old one's score
goes untold.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from whorl.envs.atari.settings import MOST, STEPS_PER_LOAD, Settings
from whorl.types import Array

SCREEN = (210, 160)
_BEGAN = 255
"""In a console's history: an episode began here, in the same game after a lost life or in one that follows."""
_SEED = struct.Struct("<q")


def open_consoles(settings: Settings, copies: int, colour: bool = False) -> Any:
    """ALE's vector interface; in colour, its observations are whole screens and nothing is stacked."""
    from ale_py import ALEVectorInterface, roms

    rom = roms.get_rom_path(settings.game)
    if rom is None:
        raise ValueError(f"ale-py has no ROM {settings.game!r}")
    height, width = SCREEN if colour else (settings.size, settings.size)
    return ALEVectorInterface(
        rom_path=rom,
        num_envs=copies,
        frame_skip=settings.frame_skip,
        stack_num=1 if colour else settings.frame_stack,
        img_height=height,
        img_width=width,
        grayscale=not colour,
        maxpool=settings.frame_skip > 1,
        noop_max=settings.noop_max + 1,  # it draws from 0 to one below
        use_fire_reset=settings.fire_reset,
        episodic_life=False,  # would begin another game with each life
        life_loss_info=False,
        reward_clipping=False,
        max_episode_steps=settings.max_frames,
        repeat_action_probability=settings.repeat_action_probability,
        full_action_space=settings.full_action_space,
        batch_size=0,
        num_threads=min(settings.threads, copies),
        thread_affinity_offset=-1,
        autoreset_mode="NextStep",
    )


class Copies:
    """Consoles whose observations go into ``block`` [copies, frame_stack, size, size].

    copies.restart({0: seed, 1: seed})            # new games, on consoles loaded for them
    rewards, terminated, truncated = copies.step(actions, {1: seed})   # 0 steps, 1 begins an episode
    """

    def __init__(self, settings: Settings, block: Array, filmed: bool = False, follows: bool = True) -> None:
        """``follows``: whether games may follow each other; else a console is loaded for each."""
        copies = len(block)
        self._settings, self._block = settings, block
        self._ale = open_consoles(settings, copies)
        self._film = open_consoles(settings, copies, colour=True) if filmed else None
        self.pictures: Array | None = None
        """[copies, height, width, 3]: what the screens show, where they are filmed."""
        names = [action.name for action in self._ale.get_action_set()]
        self.actions = len(names)
        self._opening = names.index("FIRE") if settings.fire_reset and "FIRE" in names else names.index("NOOP")
        self._full_strength = np.ones(copies, np.float32)
        self._all_started = False
        self.lives = np.zeros(copies, np.int32)
        self.scores, self.lengths = np.zeros(copies, np.int64), np.zeros(copies, np.int64)
        """Of the games so far: points, and steps."""
        self.between_lives = np.zeros(copies, np.bool_)
        """Whose last step lost a life that ended an episode: the game goes on."""
        self._hidden = np.zeros(copies, np.int64)  # the oldest frames of a stack, which are of the life before
        self.game_over = np.zeros(copies, np.bool_)
        """Whose last step ended the game: ALE begins another one with the next."""
        self._follows = follows and settings.may_follow
        self._history = _History(settings, copies) if settings.has_history else None

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Load consoles for new games, each with its seed, and leave the other copies alone."""
        lanes = list(seeds)
        self._block[lanes] = self._load(seeds)[lanes]
        self.between_lives[lanes] = self.game_over[lanes] = False

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[Array, Array, Array]:
        """Step every copy, but begin an episode in those of ``seeds``: their rewards and ends mean nothing."""
        beginning = list(seeds)
        followed = [lane for lane in beginning if self.game_over[lane] and self._may_follow(lane)]
        if seeds:
            actions = actions.copy()
            actions[beginning] = self._opening
        observation, points, over, truncated, lives = self._send(actions)
        terminated, ended = over.copy(), over | truncated
        lost = (lives < self.lives) & (lives > 0) & ~ended
        self.lives = lives
        self.scores += points
        self.lengths += 1
        np.maximum(self._hidden - 1, 0, out=self._hidden)
        if self._history is not None:
            self._history.note(actions, beginning)
        if self._settings.episodic_life:
            terminated |= lost
        if seeds:
            lost[beginning] = False  # a life that the opening costs
            opened = [lane for lane in beginning if self.between_lives[lane] and not ended[lane]]
            self._hidden[opened] = self._settings.frame_stack - 1
            self._clear_scores(followed)
            to_load = {lane: seed for lane, seed in seeds.items() if lane not in (*opened, *followed)}
            if to_load:
                observation = self._load(to_load)
                ended[list(to_load)] = False
        self.game_over = ended
        if self._settings.episodic_life:
            self.between_lives = lost
        np.copyto(self._block, observation)
        for lane in np.flatnonzero(self._hidden).tolist():
            self._block[lane, : self._hidden[lane]] = 0
        rewards = points.clip(-1, 1) if self._settings.clip_rewards else points
        return rewards.astype(np.float64), terminated, truncated

    @property
    def metrics(self) -> Array:
        """[copies, 2]: score and steps of each game; NaN where the last step cost a life that was not the last."""
        told = np.stack([self.scores, self.lengths], axis=1).astype(np.float64)
        told[self.between_lives] = np.nan
        return told

    def states(self) -> list[bytes]:
        """What ``bring_back`` needs: the seed each console was loaded with, and all that was done on it."""
        assert self._history is not None, "these games are brought back by the actions of their episodes"
        return self._history.states()

    def bring_back(self, states: Mapping[int, bytes]) -> None:
        """Play again what was played, all at once, up to where it stood; the other copies are then anybody's."""
        games = {lane: read_state(state) for lane, state in states.items()}
        rows = max(len(done) for _, done in games.values())
        begins = {lane: rows - len(done) for lane, (_, done) in games.items()}
        self.restart({lane: games[lane][0] if lane in games else 0 for lane in range(len(self._block))})
        actions = np.zeros(len(self._block), np.int64)
        for row in range(rows + 1):
            late = {lane: games[lane][0] for lane, begin in begins.items() if begin == row > 0}
            if late:
                self.restart(late)
            if row == rows:
                return
            begun = {}
            for lane, (seed, done) in games.items():
                action = int(done[row - begins[lane]]) if row >= begins[lane] else 0
                actions[lane] = 0 if action == _BEGAN else action
                if action == _BEGAN:
                    begun[lane] = seed
            self.step(actions, begun)

    def close(self) -> None:
        """End ALE's threads."""
        self._ale = self._film = None

    def _send(self, actions: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Observation, points, game over, truncated, lives."""
        self._ale.send(actions, self._full_strength)
        observation, points, over, truncated, info = self._ale.recv()
        if self._film is not None:
            self._film.send(actions, self._full_strength)
            self.pictures = self._film.recv()[0][:, 0]
        return observation, points, over, truncated.copy(), info["lives"]

    def _may_follow(self, lane: int) -> bool:
        """Whether the console need not be loaded again yet: what was done on it can be done again in bearable time."""
        return self._follows and self._history is not None and self._history.length_of(lane) < STEPS_PER_LOAD

    def _clear_scores(self, lanes: list[int]) -> None:
        self.scores[lanes] = self.lengths[lanes] = self._hidden[lanes] = 0

    def _load(self, seeds: Mapping[int, int]) -> Array:
        """Everybody's observation, with new games on consoles loaded for them in the copies named."""
        lanes = list(seeds)
        if not self._all_started:  # ALE's first reset is of all
            self._all_started = True
            seeds = {lane: seeds.get(lane, 0) for lane in range(len(self._block))}
        asked, drawn = list(seeds), [seed & MOST for seed in seeds.values()]
        observation, info = self._ale.reset(asked, drawn)
        if self._film is not None:
            self.pictures = self._film.reset(asked, drawn)[0][:, 0]
        self.lives = info["lives"]
        self._clear_scores(lanes)
        if self._history is not None:
            self._history.begin(dict(zip(asked, drawn, strict=True)))
        return np.asarray(observation)


def read_state(state: bytes) -> tuple[int, Array]:
    """The seed of a console, and all that was done on it."""
    (seed,) = _SEED.unpack_from(state)
    return seed, np.frombuffer(state, np.uint8, offset=_SEED.size)


class _History:
    """What was done on each console since it was loaded: a byte for each step."""

    def __init__(self, settings: Settings, copies: int) -> None:
        self._done = np.zeros((copies, settings.longest_history), np.uint8)
        self._length = np.zeros(copies, np.int64)
        self._seeds = np.zeros(copies, np.int64)
        self._everyone = np.arange(copies)

    def begin(self, seeds: Mapping[int, int]) -> None:
        lanes = list(seeds)
        self._length[lanes] = 0
        self._seeds[lanes] = list(seeds.values())

    def length_of(self, lane: int) -> int:
        return int(self._length[lane])

    def note(self, actions: Array, began: list[int]) -> None:
        at = np.minimum(self._length, self._done.shape[1] - 1)  # ALE itself resets a copy that is stepped when over
        self._done[self._everyone, at] = actions
        self._done[began, at[began]] = _BEGAN
        self._length = at + 1

    def states(self) -> list[bytes]:
        pairs = zip(self._seeds.tolist(), self._length.tolist(), strict=True)
        return [_SEED.pack(seed) + self._done[lane, :length].tobytes() for lane, (seed, length) in enumerate(pairs)]
