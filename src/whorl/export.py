"""Policies for elsewhere: TorchScript and ONNX files, each checked against the policy it came from.

The module that is exported takes one tensor per observation leaf and returns the greedy action (and whatever else it
likes, as a tensor or a tuple of tensors). The batch size stays free.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from whorl.errors import BadInputError, MissingExtraError, WhorlError

if TYPE_CHECKING:
    import torch

Target = Literal["onnx", "torchscript"]
TARGETS: tuple[Target, ...] = get_args(Target)
SUFFIX: Mapping[Target, str] = {"onnx": ".onnx", "torchscript": ".pt"}
TOLERANCE = 1e-4
"""The largest difference between the policy and its export that is let pass."""


def export_module(module: torch.nn.Module, example_inputs: Mapping[str, torch.Tensor], to: Target, out: Path) -> Path:
    """Write ``module`` to ``out`` and check it on the example inputs and on batches of other sizes.

    ``example_inputs`` names the module's inputs in order, each [batch, ...] with at least two rows. A file that does
    not agree with the module is removed, and ``WhorlError`` says by how much it was off.
    """
    if to not in TARGETS:
        raise BadInputError(f"cannot export to {to!r}: choose one of {', '.join(TARGETS)}")
    module = module.eval()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if to == "onnx":
            _write_onnx(module, example_inputs, out)
        else:
            _write_torchscript(module, example_inputs, out)
    except OSError as error:
        raise BadInputError(f"{out}: cannot write the export: {error.strerror or error}") from error
    difference = max(verify_export(out, to, module, inputs) for inputs in _batches(example_inputs))
    if not difference <= TOLERANCE:  # written so that NaN is refused as well
        out.unlink(missing_ok=True)
        raise WhorlError(
            f"{out}: the export differs from the policy by up to {difference:.3g} (at most {TOLERANCE:g} is let pass); "
            f"try --to {'torchscript' if to == 'onnx' else 'onnx'}"
        )
    return out


def verify_export(path: Path, to: Target, module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> float:
    """The largest absolute difference between the file's outputs and the module's, over all outputs."""
    import torch

    with torch.no_grad():
        expected = _flat(module(*inputs.values()))
    actual = _run_onnx(path, inputs) if to == "onnx" else _run_torchscript(path, inputs)
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return float("inf")
    differences = [
        (one.double() - other.double()).abs().max().item()
        for one, other in zip(expected, actual, strict=True)
        if one.numel()
    ]
    return float("nan") if any(value != value for value in differences) else max(differences, default=0.0)


def _write_onnx(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], out: Path) -> None:
    _require_onnx()
    import torch

    batch = torch.export.Dim("batch", min=1)
    with _quiet():
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(out),
            dynamo=True,
            input_names=list(inputs),
            dynamic_shapes=tuple({0: batch} for _ in inputs),
            external_data=False,
            verbose=False,
        )


def _write_torchscript(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], out: Path) -> None:
    import torch

    with _quiet(), torch.no_grad():
        traced: Any = torch.jit.trace(module, tuple(inputs.values()), check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(out))


def _run_onnx(path: Path, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    _require_onnx()
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {name: tensor.cpu().numpy() for name, tensor in inputs.items()})
    return [torch.as_tensor(output) for output in outputs]


def _run_torchscript(path: Path, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    import torch

    with _quiet(), torch.no_grad():
        return _flat(torch.jit.load(str(path))(*inputs.values()))  # type: ignore[no-untyped-call]


def _batches(inputs: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """The examples, one row of them, and more rows than there are."""
    yield dict(inputs)
    yield {name: tensor[:1] for name, tensor in inputs.items()}
    yield {name: tensor.repeat(3, *(1 for _ in tensor.shape[1:])) for name, tensor in inputs.items()}


def _flat(outputs: Any) -> list[torch.Tensor]:
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def _require_onnx() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError(
                f"export to ONNX needs {name}, which is not installed: pip install 'whorl[export]'"
            ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters warn of their own future and of absent vision libraries; neither concerns the user."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
