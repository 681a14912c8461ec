"""Campaigns on a cluster: equal bytes, and one line if scheduler or workers are missing, unfit or lost."""

import dataclasses
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.campaign import cluster, plan
from tests.golden.campaign.campaigns import MODEL, Rigged, Stuck, files, killer, local_cluster


def test_missing_scheduler_is_reported(
    small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    with pytest.raises(Refused, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 within 1 s"):
        plan.run(small, tmp_path, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(Refused, match="nonsense://x is not an address of a Dask scheduler"):
        plan.run(small, tmp_path, scheduler="nonsense://x")


def test_silent_port_times_out(small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Refused, match=f"no Dask scheduler answers at {address} within 1 s: it says nothing"):
            plan.run(small, tmp_path, scheduler=address)


class Web(socketserver.BaseRequestHandler):
    """A web server, which cannot read the request."""

    def handle(self) -> None:
        """Answer with an error."""
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.long
def test_web_server_in_place_of_scheduler_is_rejected(
    small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may give the port of the dashboard."""
    monkeypatch.setattr(cluster, "TIMEOUT", 10)
    with socketserver.TCPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(Refused, match=f"the server at {address} is not a Dask scheduler"):
            plan.run(small, tmp_path, scheduler=address)
        server.shutdown()


@pytest.mark.long
def test_cluster_without_a_lost_worker_gives_equal_bytes(
    small: plan.RandomRequest,
    whole: tuple[Path, plan.Outcome],
    read: tuple[Path, plan.Outcome],
    tmp_path: Path,
) -> None:
    """A local scheduler has two worker processes; one is killed within a shard."""
    (tmp_path / "marks").mkdir()
    rigged = Rigged(
        small, lambda index, one: one if index != 4 else Stuck(**dataclasses.asdict(one), marks=str(tmp_path / "marks"))
    )
    thread = killer(tmp_path / "marks")
    with local_cluster(n_workers=2, threads_per_worker=1, processes=True) as local:
        outcome = plan.run(rigged, tmp_path / "out", scheduler=local.scheduler_address)
        thread.join(timeout=1)
        assert not thread.is_alive(), "a worker was killed"
        assert outcome == whole[1]
        assert files(tmp_path / "out") == files(whole[0])
        asked = plan.model_request(40, **MODEL)
        assert plan.run(asked, tmp_path / "model", scheduler=local.scheduler_address) == read[1]
        assert files(tmp_path / "model") == files(read[0])


@pytest.mark.long
def test_lost_cluster_times_out(small: plan.RandomRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 2)
    with local_cluster(n_workers=0, processes=True) as local:
        with pytest.raises(Refused, match=r"tcp://\S+ has no workers"):
            plan.run(small, tmp_path / "none", scheduler=local.scheduler_address)
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                local.scheduler_address,
                "--no-nanny",
                "--no-dashboard",
                "--nthreads",
                "1",
            ],
            stderr=subprocess.DEVNULL,
        )
        local.wait_for_workers(1, timeout=60)
        with monkeypatch.context() as patch, pytest.raises(Refused, match=r"worker at \S+ does not answer within 1 s"):
            patch.setattr(cluster, "TIMEOUT", 1)
            worker.send_signal(signal.SIGSTOP)
            plan.run(small, tmp_path / "stopped", scheduler=local.scheduler_address)
        worker.send_signal(signal.SIGCONT)

        def leave(what: str, done: int, total: int) -> None:
            if done == 2:
                worker.kill()
                worker.wait()

        with pytest.raises(Refused, match=r"no workers at tcp://\S+ for 2 s; finished shards are saved"):
            plan.run(small, tmp_path / "out", scheduler=local.scheduler_address, progress=leave)
    assert golden.check(tmp_path / "out").equal


def lacks() -> str:
    """Answer of a worker without refemu, or with an old version."""
    raise ModuleNotFoundError("No module named 'refemu'")


def test_lost_scheduler_and_unfit_workers_are_reported(
    small: plan.RandomRequest, whole: tuple[Path, plan.Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_cluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://") as local:
        message = r"a worker at \S+ does not run refemu .*No module named 'refemu'"
        with monkeypatch.context() as patch, pytest.raises(Refused, match=message):
            patch.setattr(cluster, "_version", lacks)
            plan.run(small, tmp_path, scheduler=local.scheduler_address)

        def leave(what: str, done: int, total: int) -> None:
            if done == 2:
                local.close()

        with pytest.raises(Refused, match=r"the scheduler at tcp://\S+ disappeared; finished shards are saved"):
            plan.run(small, tmp_path, scheduler=local.scheduler_address, progress=leave)
    assert golden.check(tmp_path).equal
    assert plan.run(small, tmp_path).made < whole[1].shards
    assert files(tmp_path) == files(whole[0])
