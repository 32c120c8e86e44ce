"""Makes TorchRL's C++ part fit the torch it is installed beside: its wheels are built for one version of torch and load
with no other, and hold the sources. Runs in the peer's environment, which needs a C++ compiler:

    python torchrl_build.py
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """Compile, unless it loads as it is."""
    import torch  # noqa: F401 - its libraries are what the extension is linked to

    try:
        import torchrl._torchrl  # noqa: F401
    except ImportError:
        build(Path(importlib.util.find_spec("torchrl").origin).parent)  # type: ignore[union-attr, arg-type]


def build(package: Path) -> None:
    """Compile the sources that came with the wheel, in place of its library."""
    from torch.utils.cpp_extension import load

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # ninja is installed there
    sources = package / "csrc"
    built = package / "built"
    built.mkdir(exist_ok=True)
    load("_torchrl", [str(source) for source in sorted(sources.glob("*.cpp"))], ["-O3"], build_directory=str(built))
    (library,) = package.glob("_torchrl*.so")
    (built / "_torchrl.so").replace(library)


if __name__ == "__main__":
    main()
