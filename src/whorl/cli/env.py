"""``whorl env serve ENV``, ``whorl env keys DIR`` and ``whorl env native DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import add_set_option, one_of, positive_integer
from whorl.errors import EXIT_DONE

LOOPBACK = "tcp://127.0.0.1:5555"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", metavar="serve|keys|native",
        help="Serve an environment, make keys for a server, or copy servers and clients in C++ and Fortran.",
    )  # fmt: skip
    parser.add_argument("target", metavar="ENV|DIR", help="The environment to serve; the folder for keys or sources.")
    parser.add_argument(
        "--bind", metavar="ADDRESS", default=LOOPBACK,
        help=f"serve: where, tcp://HOST:PORT (port *: any that is free) or ipc://PATH. Default: {LOOPBACK}.",
    )  # fmt: skip
    parser.add_argument("--copies", metavar="N", default="16", help="serve: environments at most. Default: 16.")
    parser.add_argument("--keys", metavar="DIR", help="serve: a folder with keys; only its clients may connect.")
    parser.add_argument("--insecure", action="store_true", help="serve: let other machines connect without keys.")
    parser.add_argument(
        "--idle", metavar="S", default="300",
        help="serve: seconds of silence after which a client's copies may be given to another. Default: 300.",
    )  # fmt: skip
    add_set_option(parser, "serve: a setting of the environment: --set env.kwargs.gravity=9.8. May be repeated.")


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes, or make what others need."""
    what = one_of(arguments.what, ("serve", "keys", "native"), "whorl env")
    if what != "serve":
        paths = _make_keys(Path(arguments.target)) if what == "keys" else _copy_sources(Path(arguments.target))
        if not arguments.quiet:
            print("\n".join(map(str, paths)))
        return EXIT_DONE
    copies = positive_integer(arguments.copies, "--copies")
    idle_s = positive_integer(arguments.idle, "--idle")
    from whorl.envs.remote.server import EnvServer, allow_many_descriptors
    from whorl.resolve import env_config_from

    config = env_config_from(arguments.target, arguments.assignments)
    keys = Path(arguments.keys) if arguments.keys else None
    allow_many_descriptors()
    with EnvServer(config, arguments.bind, copies, keys, arguments.insecure, idle_s) as server:
        with server.stopping_by_signals():
            if not arguments.quiet:
                print(_announcement(server.address, config.id, copies, keys is not None), flush=True)
            server.run()
        if not arguments.quiet:
            print(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in server.counts.items()), flush=True)
    return EXIT_DONE


def _make_keys(folder: Path) -> list[Path]:
    from whorl.envs.remote.keys import make_keys

    return make_keys(folder)


def _copy_sources(folder: Path) -> list[Path]:
    from whorl.envs.remote.native import copy_sources

    return copy_sources(folder)


def _announcement(address: str, env: str, copies: int, has_keys: bool) -> str:
    """Where it is, and who can connect."""
    who = "clients with a known key" if has_keys else "any user of this machine"
    if address.startswith("ipc://"):
        who = "you alone"
    elif not has_keys:
        from whorl.envs.remote.address import is_private

        who = who if is_private(address) else "anybody"
    return f"serving {env} at {address} (at most {copies} copies; {who} may connect)"
