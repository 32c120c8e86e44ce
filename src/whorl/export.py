"""Policies for elsewhere: TorchScript and ONNX files, each checked against the policy it came from.

``export_run`` exports a run's greedy policy, ``export_module`` any module that takes tensors and returns a tensor or a
tuple of them. The batch size stays free.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from whorl.errors import BadInputError, MissingExtraError, WhorlError

if TYPE_CHECKING:
    import torch

    from whorl.models.exported import GreedyPolicy
    from whorl.policy import TrainedPolicy

Target = Literal["onnx", "torchscript"]
TARGETS: tuple[Target, ...] = get_args(Target)
SUFFIX: Mapping[Target, str] = {"onnx": ".onnx", "torchscript": ".pt"}
TOLERANCE = 1e-4
"""The largest difference between the policy and its export that is let pass, for values up to 1; relative beyond."""
EXAMPLES = 64
"""Random observations that an export is checked on."""


class Export(NamedTuple):
    """A policy on file, and how to call it."""

    path: Path
    inputs: dict[str, str]
    """Name to dtype and shape, in order."""
    outputs: dict[str, str]
    difference: float
    """The largest between the file's outputs and those of the policy as it acts in training and evaluation."""


def export_run(run_dir: Path, to: Target, out: Path | None = None) -> Export:
    """Write the greedy policy of a run's newest checkpoint, by default to ``policy.onnx`` or ``policy.pt`` in it."""
    from whorl.trainer import load_policy

    return export_policy(load_policy(run_dir), to, out or Path(run_dir) / f"policy{SUFFIX[to]}")


def export_policy(policy: TrainedPolicy, to: Target, out: Path) -> Export:
    """Write a trained policy's greedy half, checked on random observations against the policy itself."""
    from whorl.models.bounded_actor import BoundedActor
    from whorl.models.exported import GreedyPolicy
    from whorl.models.network import Network

    network = getattr(policy.acting, "network", None)
    if not isinstance(network, Network | BoundedActor):
        raise BadInputError(f"the agent {policy.job.config.agent_name!r} does not offer its network for export")
    scores = getattr(policy.acting, "scores", "logits")
    module = GreedyPolicy(network, policy.job.env.observation, policy.weights, scores)
    examples = _decided(module, module.example_inputs(EXAMPLES))
    expected = _acted(policy, module, examples)

    def agrees(path: Path) -> float:
        return _largest_difference(expected, _run(path, to, examples))

    path, difference = _export(module, examples, to, out, module.output_names, agrees)
    return Export(
        path,
        {name: _described(tensor) for name, tensor in examples.items()},
        {name: _described(tensor) for name, tensor in zip(module.output_names, expected, strict=True)},
        difference,
    )


def export_module(module: torch.nn.Module, example_inputs: Mapping[str, torch.Tensor], to: Target, out: Path) -> Path:
    """Write ``module`` to ``out`` and check it on the example inputs and on batches of other sizes.

    ``example_inputs`` names the module's inputs in order, each [batch, ...] with at least two rows. A file that does
    not agree with the module is removed, and ``WhorlError`` says by how much it was off.
    """
    return _export(module, example_inputs, to, out)[0]


def _export(
    module: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    to: Target,
    out: Path,
    output_names: Sequence[str] | None = None,
    further_check: Callable[[Path], float] = lambda _: 0.0,
) -> tuple[Path, float]:
    """Write beside the goal, check, and only then put it there: a file of before is kept when this one is no good."""
    if to not in TARGETS:
        raise BadInputError(f"cannot export to {to!r}: choose one of {', '.join(TARGETS)}")
    module = module.eval()
    if out.is_dir():
        raise BadInputError(f"{out}: a directory; name a file in it, such as {out / 'policy'}")
    draft = out.with_name(f".{out.name}.draft")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if to == "onnx":
            _write_onnx(module, inputs, draft, output_names)
        else:
            _write_torchscript(module, inputs, draft)
        differences = [*(verify_export(draft, to, module, batch) for batch in _batches(inputs)), further_check(draft)]
        difference = math.nan if any(map(math.isnan, differences)) else max(differences)
        if not difference <= TOLERANCE:  # written so that NaN is refused as well
            raise WhorlError(
                f"{out}: not written, since it differs from the policy by up to {difference:.3g} (at most "
                f"{TOLERANCE:g} is let pass); try --to {'torchscript' if to == 'onnx' else 'onnx'}"
            )
        draft.replace(out)
    except OSError as error:
        raise BadInputError(f"{out}: cannot write the export: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return out, difference


def verify_export(path: Path, to: Target, module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> float:
    """The largest difference between the file's outputs and the module's, relative to an output's size if over 1."""
    import torch

    with torch.no_grad():
        expected = _flat(module(*inputs.values()))
    return _largest_difference(expected, _run(path, to, inputs))


def _largest_difference(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> float:
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return float("inf")
    differences = [
        (one.double() - other.double()).abs().max().item() / _scale(one)
        for one, other in zip(expected, actual, strict=True)
        if one.numel()
    ]
    return math.nan if any(map(math.isnan, differences)) else max(differences, default=0.0)


def _scale(tensor: torch.Tensor) -> float:
    """Its largest value where that is over 1: rounding grows with it."""
    return max(1.0, tensor.double().abs().max().item())


def _decided(module: GreedyPolicy, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The rows with a clear choice: where two logits are as good as equal, either action is right."""
    import torch

    if module.continuous:
        return dict(inputs)
    with torch.no_grad():
        logits = module(*inputs.values())[1]
    blocks = logits.split(module.network.head.action.nvec, 1)
    best_two = [block.topk(2, dim=1).values for block in blocks if block.shape[1] > 1]
    clear = [two[:, 0] - two[:, 1] > TOLERANCE * _scale(logits) for two in best_two]
    kept = torch.stack(clear).all(0) if clear else torch.ones(EXAMPLES, dtype=torch.bool)
    return {name: tensor[kept] for name, tensor in inputs.items()} if kept.sum() >= 2 else dict(inputs)


def _acted(policy: TrainedPolicy, module: GreedyPolicy, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What the file should say: actions and state from the policy that acts, scores from the module."""
    import numpy as np
    import torch

    names = [field.name for field in module.network.state]
    rows = len(next(iter(inputs.values())))
    # A state that only explores (noise with a memory) is no input of the file.
    state = {f.name: np.zeros((rows, *f.shape), f.dtype) for f in policy.acting.spec.state}
    state |= {name: inputs[name].numpy() for name in names}
    going_on = np.zeros(rows, np.bool_)
    acted = policy.acting.act(policy.weights, module.observation_of(inputs), state, going_on, None)
    with torch.no_grad():
        scores = module(*inputs.values())[1]
    return [torch.as_tensor(acted.actions), scores, *(torch.as_tensor(acted.state[name]) for name in names)]


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} [{', '.join(['batch', *map(str, tensor.shape[1:])])}]"


def _write_onnx(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], out: Path, output_names: Sequence[str] | None
) -> None:
    _require_onnx()
    import torch

    batch = torch.export.Dim("batch", min=1)
    shapes: tuple[Any, ...] = tuple({0: batch} for _ in inputs)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values())
    with _quiet():
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(out),
            dynamo=True,
            input_names=list(inputs),
            output_names=output_names,
            dynamic_shapes=(shapes,) if takes_any else shapes,
            external_data=False,
            verbose=False,
        )


def _write_torchscript(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], out: Path) -> None:
    import torch

    with _quiet(), torch.no_grad():
        traced: Any = torch.jit.trace(module, tuple(inputs.values()), check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(str(out))


def _run(path: Path, to: Target, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return _run_onnx(path, inputs) if to == "onnx" else _run_torchscript(path, inputs)


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
