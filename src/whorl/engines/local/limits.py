"""What the machine must offer, asked before any process starts."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

from whorl.errors import BadInputError

_SPARE_DESCRIPTORS = 64


def available_memory_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> tuple[int, str]:
    """What may still be used, and what bounds it: the machine or a control group's limit."""
    available, bound = 2**63, "this machine"
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit_name, usage_name = cgroups, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit_name, usage_name = cgroups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            try:
                limit_text = (folder / limit_name).read_text().strip()
                left = int(limit_text) - int((folder / usage_name).read_text())
            except (OSError, ValueError):
                continue
            if left < available:
                available, bound = max(left, 0), "its control group"
    return available, bound


def out_of_memory_kills(proc: Path = Path("/proc")) -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not tell."""
    try:
        words = (line.split() for line in (proc / "vmstat").read_text().splitlines())
        return next((int(word[1]) for word in words if word[0] == "oom_kill"), 0)
    except (OSError, ValueError):
        return 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception is one of the ways in which a shortage of memory shows."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, ImportError | RuntimeError) and any(
        sign in str(error) for sign in ("failed to map segment", "Cannot allocate memory", "can't allocate memory")
    )


def check_memory(needed_bytes: int) -> None:
    """``BadInputError`` when the endpoints of a plan cannot fit."""
    available, bound = available_memory_bytes()
    if needed_bytes > available:
        raise BadInputError(
            f"this run needs {needed_bytes / 2**30:.2f} GiB of memory for what its roles exchange and {bound} has "
            f"{available / 2**30:.2f} GiB left; use fewer actors or environments, or shorter trajectories"
        )


def check_descriptors(needed: int) -> None:
    """Make room for this many more descriptors: raise the soft limit if need be, or ``BadInputError``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(list(Path("/proc/self/fd").iterdir())) + needed + _SPARE_DESCRIPTORS
    if wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise BadInputError(
            f"this run needs {wanted} open descriptors and the limit is {hard}; "
            "use fewer actors, or raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else hard, hard))
