"""In which numbers to compute with images: bfloat16 where it is quicker, which is where there are instructions for it.

bfloat16 has the range of float32 and 8 bits of its precision. A processor without instructions for it converts to
float32 and back around every operation, which takes longer than float32 alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from whorl.config.schema import Config

Precision = Literal["float32", "bfloat16"]

_CPU_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""As Linux names them: Intel and AMD, and Arm."""
_FIRST_CUDA_CAPABILITY = (8, 0)


def resolve_precision(
    asked: Literal["auto", "float32", "bfloat16"], device: str, images: bool, cpuinfo: Path = Path("/proc/cpuinfo")
) -> Precision:
    """What ``auto`` means on this machine. Without images there is nothing to choose."""
    if asked != "auto":
        return asked
    return "bfloat16" if images and has_bfloat16(device, cpuinfo) else "float32"


def acting_precision(config: Config) -> Precision:
    """In which numbers actors compute: the learner's, where that is a processor too."""
    return "bfloat16" if config.run.precision == "bfloat16" and config.resources.device == "cpu" else "float32"


def has_bfloat16(device: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the device computes with bfloat16 and does not only emulate it."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.is_available() and torch.cuda.get_device_capability(device) >= _FIRST_CUDA_CAPABILITY
    if not cpuinfo.exists():
        return False
    lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
    flags = next((flags for name, _, flags in lines if name.strip() in ("flags", "Features")), "")
    return not _CPU_FLAGS.isdisjoint(flags.split())
