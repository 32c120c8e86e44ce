"""Who may connect: keys and sockets that nobody else can read, and nobody without them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import zmq

from whorl.cli.main import main
from whorl.config.schema import EnvConfig
from whorl.envs.registry import make_env
from whorl.envs.remote.address import is_private
from whorl.envs.remote.keys import allowed_clients, client_keys, make_keys, server_secret
from whorl.envs.remote.server import EnvServer
from whorl.errors import BadInputError, EnvironmentFault

from .conftest import Serve

LOOPBACK = "tcp://127.0.0.1:*"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys")
    return tmp_path / "keys"


def test_keys_are_made_for_their_owner_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "keys"
    assert main(["env", "keys", str(folder)]) == 0
    assert "server.secret" in capsys.readouterr().out
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert zmq.curve_public(server_secret(folder)) == client_keys(folder)[0]
    assert zmq.curve_public(client_keys(folder)[1]) in allowed_clients(folder)
    assert main(["env", "keys", str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "mode", "read"),
    [
        ("server.secret", 0o640, server_secret),
        ("client.secret", 0o604, client_keys),
        ("", 0o755, client_keys),
        ("clients", 0o770, allowed_clients),
        ("clients/client.public", 0o666, allowed_clients),
    ],
)
def test_keys_that_others_can_read_are_refused(keys: Path, name: str, mode: int, read: object) -> None:
    (keys / name).chmod(mode)
    with pytest.raises(BadInputError, match=r"can be read by others; mend: chmod"):
        read(keys)  # type: ignore[operator]


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 40, b"'" * 40, b"x" * 41])
def test_a_file_that_holds_no_key_is_refused(keys: Path, content: bytes) -> None:
    (keys / "client.secret").write_bytes(content)
    with pytest.raises(BadInputError, match="holds no key"):
        client_keys(keys)


def test_clients_with_a_known_key_are_served_and_no_others(
    serve: Serve, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK, keys=keys)
    env = make_env(served.address, {"keys": str(keys)})
    env.reset(seed=1)
    env.close()
    monkeypatch.setenv("WHORL_KEYS", str(keys))
    make_env(served.address).close()
    monkeypatch.delenv("WHORL_KEYS")
    with pytest.raises(EnvironmentFault, match=r"does it want keys \(env.kwargs.keys or WHORL_KEYS\)"):
        make_env(served.address, {"patience_s": 1})
    make_keys(tmp_path / "strangers")
    (tmp_path / "strangers" / "server.public").write_bytes((keys / "server.public").read_bytes())
    with pytest.raises(EnvironmentFault, match=r"no answer for 1 s: .* know the client of .*/strangers\?") as refused:
        make_env(served.address, {"patience_s": 1, "keys": str(tmp_path / "strangers")})
    assert (tmp_path / "strangers" / "client.secret").read_text().strip() not in str(refused.value)
    make_env(served.address, {"keys": str(keys)}).close()


def test_a_client_takes_no_server_with_another_key(serve: Serve, keys: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "impostor")
    (tmp_path / "impostor" / "clients" / "client.public").write_bytes(
        zmq.curve_public((keys / "client.secret").read_bytes().strip())
    )
    served = serve("CartPole-v1", bind=LOOPBACK, keys=tmp_path / "impostor")
    with pytest.raises(EnvironmentFault, match="no answer for 1 s"):
        make_env(served.address, {"patience_s": 1, "keys": str(keys)})


@pytest.mark.parametrize("bind", ["tcp://0.0.0.0:5999", "tcp://*:5999", "tcp://[::]:5999", "tcp://192.168.1.7:5999"])
def test_other_machines_need_keys_unless_told_otherwise(bind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "serve", "CartPole-v1", "--bind", bind]) == 2
    assert "whorl env keys DIR" in capsys.readouterr().err


def test_insecure_must_be_said() -> None:
    with EnvServer(EnvConfig(id="CartPole-v1"), "tcp://0.0.0.0:*", copies=1, insecure=True) as server:
        assert not is_private(server.address)


def test_what_is_private() -> None:
    private = ("tcp://127.0.0.1:1", "tcp://127.9.9.9:1", "tcp://localhost:1", "tcp://[::1]:1", "ipc:///tmp/x")
    public = ("tcp://0.0.0.0:1", "tcp://*:1", "tcp://example.org:1", "tcp://eth0:1", "tcp://10.0.0.1:1", "tcp://[::]:1")
    assert all(map(is_private, private))
    assert not any(map(is_private, public))


def test_a_socket_in_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder, words in ((tmp_path, "others may enter"), (tmp_path / "none", "mkdir -m 700")):
        with pytest.raises(BadInputError, match=words):
            EnvServer(EnvConfig(id="CartPole-v1"), f"ipc://{folder / 'env.sock'}", copies=1)
    tmp_path.chmod(0o700)


def test_a_second_server_does_not_take_the_first_ones_socket(serve: Serve) -> None:
    served = serve("CartPole-v1")
    with pytest.raises(BadInputError, match="a server is running there already"):
        EnvServer(EnvConfig(id="CartPole-v1"), served.address, copies=1)
    path = Path(served.address.removeprefix("ipc://"))
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_port_that_is_taken_is_one_clear_line(serve: Serve) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK)
    with pytest.raises(BadInputError, match="cannot be bound"):
        EnvServer(EnvConfig(id="CartPole-v1"), served.address, copies=1)
