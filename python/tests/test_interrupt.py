"""Long work reports its progress and can be interrupted."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import curtail

#: An experiment that would take hours.
LONG = {"requests": 100_000_000, "replications": 2}


def test_a_signal_ends_a_simulation() -> None:
    def interrupt(done: int, total: int) -> None:
        assert 0 <= done <= total == 2 * 100_000_000
        if done > 0:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        curtail.simulate("psq", **LONG, progress=interrupt)


def test_an_exception_of_the_callback_ends_a_simulation() -> None:
    def enough(done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        curtail.simulate("psq", **LONG, progress=enough)
    with pytest.raises(LookupError, match="enough"):
        curtail.sweep({"seed": [1, 2]}, "psq", **LONG, progress=enough)


def test_the_interpreter_goes_on_meanwhile() -> None:
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    def enough(done: int, total: int) -> None:
        if ticks >= 100:
            raise LookupError

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with pytest.raises(LookupError):
            curtail.simulate("psq", **LONG, progress=enough)
    finally:
        stop.set()
        thread.join()


def test_a_bar_is_shown_after_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from curtail import _progress

    monkeypatch.setattr(_progress, "BAR_DELAY_S", 0.0)
    monkeypatch.setattr(_progress, "_tqdm", lambda what, total: False)
    curtail.simulate("psq", shards=2, requests=200_000, progress=True)
    assert "simulating" in capsys.readouterr().err
    curtail.simulate("psq", shards=2, requests=200_000)
    assert capsys.readouterr().err == "", "nobody is looking"
