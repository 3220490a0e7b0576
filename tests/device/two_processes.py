"""Runs a worker in two local processes that find each other as under torchrun."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

#: Seconds for all that a worker does; and how long one process waits for the other.
LIMIT, PATIENCE = 300, timedelta(seconds=60)


def in_two_processes(worker: str, *arguments: str, env: dict[str, str]) -> str:
    """What ``worker``, a file of this folder, prints in both processes; it has to succeed."""
    command = [sys.executable, str(Path(__file__).with_name(worker)), *arguments]
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    with contextlib.ExitStack() as files:
        said = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        processes = [
            subprocess.Popen(
                command,
                env={**env, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=said[rank],
                stderr=subprocess.STDOUT,
            )
            for rank in range(2)
        ]
        end = time.monotonic() + LIMIT
        try:
            codes = [p.wait(timeout=max(1, end - time.monotonic())) for p in processes]
        finally:
            for p in processes:
                p.kill()
        texts = [(f.seek(0), f.read())[1] for f in said]
    for code, text in zip(codes, texts, strict=True):
        assert code == 0, text[-4000:]
    return "".join(texts)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
