"""A FastAPI server that answers from several threads with one compiled model, under load.

    python examples/serving.py

Requests are of different sizes: the model is compiled once for all of them, and the threads share
its kernels. The picture shows how long the answers took.
"""

from __future__ import annotations

import copy
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import check_close, check_counters, console, graphs, options, step, summary
from data import digits

import httpx
import torch
import uvicorn
from fastapi import FastAPI
from torch import nn


def network() -> nn.Module:
    """A convolutional network for scans of digits, as large as to have something to do."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * 64, 10),
    ).eval()


def application(compiled: nn.Module) -> FastAPI:
    app = FastAPI()

    @app.post("/digits")
    def answer(images: list[list[list[float]]]) -> list[list[float]]:
        # Not async: FastAPI calls it in one of its threads.
        with torch.inference_mode():
            return compiled(torch.tensor(images).unsqueeze(1)).tolist()

    return app


def start(app: FastAPI) -> tuple[uvicorn.Server, str]:
    """The server, in a thread of its own, and its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, args=([listener],), daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return server, f"http://127.0.0.1:{listener.getsockname()[1]}/digits"


def draw(milliseconds: torch.Tensor, marks: dict[int, float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3), layout="constrained")
    axis.hist(milliseconds.numpy(), bins=40)
    for percent, value in marks.items():
        axis.axvline(value, color="black", linestyle=":")
        axis.text(value, axis.get_ylim()[1], f"{percent} %", rotation=90, va="top")
    axis.set(xlabel="milliseconds", ylabel="requests")
    figure.savefig(path, dpi=80)


def main() -> None:
    chosen = options(
        __doc__.splitlines()[0], requests=(300, "requests"), clients=(4, "clients at once")
    )
    model = network()
    compiled = torch.compile(model, backend="opencl", dynamic=True)
    images, _ = digits()
    pieces = [images[i * 3 : i * 3 + 2 + i % 7] for i in range(chosen.requests)]
    server, address = start(application(compiled))

    def ask(piece: torch.Tensor) -> tuple[torch.Tensor, float]:
        begin = time.perf_counter()
        reply = httpx.post(address, json=piece[:, 0].tolist(), timeout=120)
        return torch.tensor(reply.raise_for_status().json()), time.perf_counter() - begin

    with step("the first two requests"):
        ask(pieces[0]), ask(pieces[1])
    settled = graphs()
    with step(f"{chosen.requests} requests of {chosen.clients} clients"):
        begin = time.perf_counter()
        with ThreadPoolExecutor(chosen.clients) as pool:
            replies, seconds = zip(*pool.map(ask, pieces))
        rate = chosen.requests / (time.perf_counter() - begin)
    server.should_exit = True

    milliseconds = torch.tensor(seconds) * 1e3
    marks = {p: milliseconds.quantile(p / 100).item() for p in (50, 90, 99)}
    shown = ", ".join(f"{percent} % within {value:.1f} ms" for percent, value in marks.items())
    console.print(f"{rate:.0f} requests a second; {shown}; {summary()}")
    draw(milliseconds, marks, chosen.output / "serving.png")
    console.print(f"picture: {chosen.output / 'serving.png'}")

    if chosen.check:
        check_counters(settled)
        with torch.no_grad():
            exact = copy.deepcopy(model).double()(torch.cat(pieces).double())
            check_close(torch.cat(replies), model(torch.cat(pieces)), exact)


if __name__ == "__main__":
    main()
