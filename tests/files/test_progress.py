"""The bar of a terminal, and the lines where there is none."""

import io
import sys

import pytest

from simile_plugin.files import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(8, " sentences", "mining", keep=True) as progress:
        progress.update(3)
        progress.show(8, "loss 0.5", "not shown")
        assert progress.bar.n == 8
    shown = terminal.getvalue()
    assert "mining: 100%" in shown and "8/8" in shown and "loss 0.5" in shown
    assert "not shown" not in shown


def test_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    with Progress(8, "step") as progress:
        progress.update(3)
        progress.show(4, "x", "step 4")  # too early
        now[0] += 15.5
        progress.show(5, "x", "step 5")
        progress.show(6, "x", "step 6")
        now[0] += 15.5
        progress.show(7, "x")
        progress.show(8, "x", "step 8", last=True)
    assert capsys.readouterr().err == "step 5\nstep 8\n"
