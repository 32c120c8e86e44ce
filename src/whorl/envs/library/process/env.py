"""``whorl/Process-v0``: an external executable as a Gymnasium environment."""

from __future__ import annotations

import math
from typing import Any

import gymnasium

from whorl.envs.library.process.files import FilesTalk
from whorl.envs.library.process.guard import Guard
from whorl.envs.library.process.lines import Answer, LinesTalk
from whorl.envs.library.process.program import ProgramFailed
from whorl.envs.library.process.scratch import Scratch
from whorl.envs.library.process.settings import Settings, check_keep, check_metrics, read_command, read_paths
from whorl.envs.library.process.spaces import BadAnswer, from_json, make_space, to_json

Info = dict[str, Any]


class Process(gymnasium.Env[Any, Any]):
    """Runs a program for each episode and talks with it in lines of JSON, or in files.

    command:           the program and its arguments, as a list or a text (no shell; relative files are found)
    observation:       its space: 4, [3, 3], {shape = [2], low = -1.0, high = 1.0}, or a table of these by name
    action:            its space, in the same form
    mode:              lines (JSON on its pipes), files (it watches for files), rerun (files; run anew for each step)
    metrics:           names of numbers that the last answer of an episode tells
    start_timeout_s, step_timeout_s: how long the first answer and each later one may take
    exit_timeout_s:    how long it may take to end by itself after an episode, before it is killed
    scratch:           where its folders are made (the system's temporary folder)
    keep:              which folders stay: never, failed, always, archive (all, as .tar.gz); at most keep_most of them
    scratch_mb:        an episode whose folder grows larger is given up
    files:             files and folders to copy into each folder
    answer_prefix:     lines: only lines that begin with this are answers, the others are ignored
    action_file, answer_file: their names; an answer_file that does not end with .json holds plain numbers
    template:          a text file that becomes the action_file, with $seed, $step, $action, $action_0 ... filled in
    max_answer_bytes:  a longer answer is refused
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        command: str | list[str],
        observation: Any,
        action: Any,
        mode: str = "lines",
        metrics: list[str] | tuple[str, ...] = (),
        start_timeout_s: float = 60.0,
        step_timeout_s: float = 60.0,
        exit_timeout_s: float = 1.0,
        scratch: str = "",
        keep: str = "never",
        keep_most: int = 20,
        scratch_mb: float = 1000.0,
        files: list[str] | tuple[str, ...] = (),
        answer_prefix: str = "",
        action_file: str = "action.json",
        answer_file: str = "answer.json",
        template: str = "",
        max_answer_bytes: int = 16 * 1024 * 1024,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            raise ValueError("a program cannot be rendered; let it keep pictures in its folder (keep = always)")
        self.observation_space, self.action_space = make_space("observation", observation), make_space("action", action)
        self.episode_metrics, self.render_mode = check_metrics(metrics), None
        check_keep(keep, keep_most, scratch_mb)
        self._settings = Settings(
            command=read_command(command),
            mode=mode,
            answer_prefix=answer_prefix,
            action_file=action_file,
            answer_file=answer_file,
            template=read_paths([template])[0] if template else "",
            start_timeout_s=start_timeout_s,
            step_timeout_s=step_timeout_s,
            exit_timeout_s=exit_timeout_s,
            max_answer_bytes=max_answer_bytes,
        )
        if isinstance(self.observation_space, gymnasium.spaces.Dict) and not self._settings.answers_in_json:
            raise ValueError(f"an observation of several parts needs JSON: call answer_file {answer_file}.json")
        self._scratch = Scratch(scratch, keep, int(keep_most), read_paths(files), int(scratch_mb * 1e6))
        self._guard: Guard | None = None
        self._talk: LinesTalk | FilesTalk | None = None
        self._seed, self._episode, self._steps, self._is_over = 0, -1, 0, False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """End the program of the last episode and start one for the next; without a seed, with one that follows."""
        super().reset(seed=seed, options=options)
        self._finish()
        self._seed = int(self.np_random.integers(2**31)) if seed is None else int(seed)
        self._episode, self._steps, self._is_over = self._episode + 1, 0, False
        try:
            self._talk = self._make_talk()
            folder = self._scratch.begin(self._episode, self._seed)
            answer = self._talk.begin(folder, self._seed, self._episode)
            observation = self._observation(answer)
        except Exception as error:
            raise self._failed(error) from None
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """One action to the program, one answer back."""
        if self._talk is None or self._is_over:
            raise ProgramFailed("there is no episode under way; call reset first")
        self._steps += 1
        try:
            answer = self._talk.step(to_json(self.action_space, action))
            observation = self._observation(answer)
            reward = _reward(answer)
            terminated, truncated = _flag(answer, "terminated"), _flag(answer, "truncated")
            if not isinstance(answer.get("metrics", {}), dict):
                raise BadAnswer(f"metrics: expected an object; got {answer['metrics']!r:.60}")
            self._scratch.look()
        except Exception as error:
            raise self._failed(error) from None
        self._is_over = terminated or truncated
        if self._is_over:
            self._talk.say_goodbye()
        return observation, reward, terminated, truncated, self._told(answer) if self._is_over else {}

    def close(self) -> None:
        """End the program and everything it started; its folder goes the way of the others."""
        self._finish()
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()

    def _make_talk(self) -> LinesTalk | FilesTalk:
        if self._guard is None:
            self._guard = Guard()
        if self._settings.mode == "lines":
            return LinesTalk(self._settings, self._guard, self._scratch.look)
        size = math.prod(self.observation_space.shape or ())
        return FilesTalk(self._settings, self._guard, self._scratch.look, size)

    def _observation(self, answer: Answer) -> Any:
        if "observation" not in answer:
            raise BadAnswer(f"an answer without an observation; it has {', '.join(map(str, answer)) or 'nothing'}")
        return from_json(self.observation_space, answer["observation"])

    def _told(self, answer: Answer) -> Info:
        metrics = answer.get("metrics")
        return {name: metrics[name] for name in self.episode_metrics if name in metrics} if metrics else {}

    def _failed(self, error: Exception) -> ProgramFailed:
        """The episode is given up: end the program, keep its folder if that is the policy, and tell."""
        text = str(error) if isinstance(error, ProgramFailed | BadAnswer) else f"{type(error).__name__}: {error}"
        fault = f"{text} (step {self._steps} of an episode with seed {self._seed})"
        self._finish(fault)
        return ProgramFailed(fault)

    def _finish(self, fault: str = "") -> None:
        talk, self._talk = self._talk, None
        if talk is None:
            return
        about = {"command": self._settings.command, "seed": self._seed, "episode": self._episode, "steps": self._steps}
        last_words = ""
        try:
            last_words = talk.end(in_order=self._is_over and not fault)
        finally:
            self._scratch.finish({**about, "fault": fault} if fault else about, last_words)
            if self._guard is not None:
                self._guard.release()


def _reward(answer: Answer) -> float:
    reward = answer.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise BadAnswer(f"reward: expected a number; got {reward!r:.60}")
    try:
        return float(reward)
    except OverflowError:
        return math.inf  # refused at the lane's door


def _flag(answer: Answer, name: str) -> bool:
    value = answer.get(name, False)
    if value not in (True, False):
        raise BadAnswer(f"{name}: expected true or false; got {value!r:.60}")
    return bool(value)
