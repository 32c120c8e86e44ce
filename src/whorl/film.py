"""Films of episodes. Frames go to the encoder as they come: a long episode takes no more memory than a short one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from whorl.envs.containment import CONTAINED, close_quietly, is_users_interrupt
from whorl.envs.registry import Env, explain_failure, make_env
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError, last_line
from whorl.types import Array

_DEFAULT_FPS = 30


def make_filmed_env(env_id: str, kwargs: dict[str, Any]) -> Env:
    """An environment that renders to arrays, whatever its settings say about rendering."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no window is opened, so no display is needed
    try:
        return make_env(env_id, {**kwargs, "render_mode": "rgb_array"})
    except MissingExtraError:
        raise
    except BadInputError as error:
        close_quietly(make_env(env_id, kwargs))  # where making it fails too, its own words say more
        raise BadInputError(f"{env_id} cannot be filmed: it offers no render_mode 'rgb_array'") from error


class Film:
    """Writes an mp4. The file appears under its name when the film is complete.

    with Film(path, env) as film:
        film.shoot()        # after reset and after each step
    """

    def __init__(self, path: Path, env: Env) -> None:
        self._imageio = _encoder()
        self._path, self._env = path, env
        self._env_id = env.spec.id if env.spec is not None else type(env).__name__
        self._draft = path.with_name(f".draft-{path.name}")  # the encoder goes by the suffix
        self._writer: Any = None
        self._size: tuple[int, ...] = ()

    def shoot(self) -> None:
        """Add a frame of what the environment shows now."""
        frame = self._frame()
        height, width = (size - size % 2 for size in frame.shape[:2])  # the encoder takes even sizes only
        try:
            if self._writer is None:
                self._size = frame.shape
                fps = float(self._env.metadata.get("render_fps") or _DEFAULT_FPS)
                self._writer = self._imageio.get_writer(
                    self._draft, format="FFMPEG", fps=fps, codec="libx264", macro_block_size=2
                )
            self._writer.append_data(frame[:height, :width])
        except OSError as error:
            raise BadInputError(f"{self._path}: cannot write the film: {error.strerror or error}") from error

    def _frame(self) -> Array:
        try:
            frame = self._env.render()
        except CONTAINED as error:
            if is_users_interrupt(error):
                raise
            explained = explain_failure(self._env_id, {}, error)
            if isinstance(explained, MissingExtraError):
                raise explained from error
            raise EnvironmentFault(f"{self._env_id}: render() failed: {last_line(error)}") from error
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            got = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
            raise EnvironmentFault(
                f"{self._env_id}: render() must give uint8 pictures of [height, width, 3], and gave {got}"
            )
        if self._size and frame.shape != self._size:
            raise EnvironmentFault(f"{self._env_id}: render() changed its size from {self._size} to {frame.shape}")
        return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
            if kind is None:
                self._draft.replace(self._path)
        except OSError as error:
            raise BadInputError(f"{self._path}: cannot write the film: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(OSError):
                self._draft.unlink(missing_ok=True)


def _encoder() -> Any:
    try:
        import imageio.v2
        import imageio_ffmpeg  # type: ignore[import-untyped, unused-ignore] # noqa: F401
    except ImportError as error:
        raise MissingExtraError("--video needs more packages: pip install 'whorl[video]'") from error
    return imageio.v2
