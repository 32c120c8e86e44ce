"""``whorl booster compare RUN_DIR...``, ``whorl booster fit FILE`` and ``whorl booster records FILE``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import natural_number, one_of, positive_integer
from whorl.errors import EXIT_DONE, BadInputError

_MOST_TICKS = 250_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", metavar="compare|fit|records",
        help="Set runs beside the regulators; fit a surrogate to records; or make up records by which to try that.",
    )  # fmt: skip
    parser.add_argument(
        "paths", metavar="RUN_DIR|FILE", nargs="+", type=Path,
        help="compare: directories of runs. fit: a CSV file as BOOSTR has it. records: the file to write.",
    )  # fmt: skip
    parser.add_argument("--episodes", metavar="N", default="500", help="compare: episodes to play. Default: 500.")
    parser.add_argument(
        "-o", "--out", metavar="FILE.safetensors", type=Path,
        help="fit: where to write, with a .json beside it. Default: beside the records, with their name.",
    )  # fmt: skip
    parser.add_argument("--ticks", metavar="N", default=str(_MOST_TICKS), help="Ticks at most. Default: 250000.")
    parser.add_argument("--epochs", metavar="N", default="10", help="fit: times to go over the records. Default: 10.")
    parser.add_argument(
        "--hidden", metavar="N,N,...", default="256,256,256",
        help="fit: widths of the LSTM layers. Default: 256,256,256, as published.",
    )  # fmt: skip
    parser.add_argument("--look-back", metavar="N", default="150", help="fit: ticks that it sees. Default: 150.")
    parser.add_argument("--seed", metavar="S", default="0", help="Of everything random. Default: 0.")


def run(arguments: argparse.Namespace) -> int:
    """Fit and say how well, or make up records."""
    what = one_of(arguments.what, ("compare", "fit", "records"), "whorl booster")
    seed = natural_number(arguments.seed, "--seed")
    if what == "compare":
        return _compare(arguments.paths, positive_integer(arguments.episodes, "--episodes"), seed)
    if len(arguments.paths) > 1:
        raise BadInputError(f"whorl booster {what} takes one file; got {len(arguments.paths)}")
    (file,) = arguments.paths
    ticks = positive_integer(arguments.ticks, "--ticks")
    return _fit(arguments, file, ticks, seed) if what == "fit" else _make_up(file, ticks, seed)


def _compare(run_dirs: list[Path], episodes: int, seed: int) -> int:
    from whorl.regulation import compare, load_policies

    found = compare(load_policies(run_dirs), episodes, seed)
    reference = found[0].error
    print(f"{'':<32}{'mean |IMINER|':>14}{'better by':>11}{'converged':>11}{'left early':>12}")
    for one in found:
        better = reference / one.error
        print(f"{one.name:<32}{one.error:>12.4f} A{better:>11.2f}{one.converged:>11.1%}{one.left_early:>12}")
    return EXIT_DONE


def _make_up(file: Path, ticks: int, seed: int) -> int:
    from whorl.envs.library.booster.records import write_synthetic

    write_synthetic(file, ticks, seed)
    print(file)
    return EXIT_DONE


def _fit(arguments: argparse.Namespace, file: Path, ticks: int, seed: int) -> int:
    if arguments.out is not None and arguments.out.suffix != ".safetensors":
        raise BadInputError(f"--out: expected a name that ends in .safetensors; got {str(arguments.out)!r}")
    epochs = positive_integer(arguments.epochs, "--epochs")
    look_back = positive_integer(arguments.look_back, "--look-back")
    hidden = tuple(positive_integer(size, "--hidden") for size in arguments.hidden.split(","))
    from whorl.envs.library.booster.records import read_records
    from whorl.fitting import Epoch, FitSettings, fit_surrogate

    say = (lambda _: None) if arguments.quiet else print
    records = read_records(file, ticks)
    say(f"{len(records.values):,} ticks in {len(records.stretches)} stretches; the last fifth is held out")

    def tell(epoch: Epoch) -> None:
        say(f"epoch {epoch.number}: {_errors(*epoch.errors)}{', the best so far' if epoch.is_best else ''}")

    surrogate = fit_surrogate(records, FitSettings(epochs, hidden, look_back, seed), file.name, tell)
    out = surrogate.save(arguments.out or file.with_suffix(".safetensors"))
    still = surrogate.about["held_out_error_if_nothing_changed"].values()
    say(f"(who says that nothing changes {_errors(*still)})")
    say(f"{surrogate.parameters:,} parameters, of epoch {surrogate.about['epoch']}, in")
    print(out)
    return EXIT_DONE


def _errors(vimin: float, iminer: float, linfrq: float) -> str:
    return f"misses B:VIMIN by {1000 * vimin:.2f} mA, B:IMINER by {1000 * iminer:.1f} mA, B:LINFRQ by {linfrq:.2f} mHz"
