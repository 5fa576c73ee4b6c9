"""Headless Chromium for the tests of pages, driven over its debugging pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)
LIMIT = 240
"""Seconds for one answer, on a machine that has much else to do."""


def program() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Pipe:
    """Messages of the DevTools protocol, each ended by a zero byte."""

    def __init__(self, read: int, write: int):
        self.read_end, self.write_end, self.number, self.left = read, write, 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of a command; events on the way are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        number = self.number
        while True:
            answer = self.receive(method)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def receive(self, waiting_for: str) -> dict[str, Any]:
        end = time.monotonic() + LIMIT
        while b"\0" not in self.left:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self.read_end, 1 << 20) if ready else b""
            assert part, f"the browser does not answer {waiting_for}"
            self.left += part
        text, _, self.left = self.left.partition(b"\0")
        return json.loads(text)


class Page:
    """One tab."""

    def __init__(self, pipe: Pipe):
        self.pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.pipe.call(method, self.session, **parameters)

    def open(self, file: Path) -> float:
        """Seconds until the page is loaded, has run its script and has been laid out."""
        started = time.monotonic()
        self.load(file)
        self.drawn()
        return time.monotonic() - started

    def load(self, file: Path) -> None:
        seen = len(self.pipe.events)
        self.call("Page.navigate", url=file.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" and event.get("sessionId") == self.session for event in self.pipe.events[seen:]):
            self.pipe.events.append(self.pipe.receive("the page being loaded"))

    def drawn(self) -> None:
        """Waits for what was asked of the page to be seen."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")

    def cpu(self) -> float:
        """Seconds of a processor that the page's own thread has taken: the same on a machine that has other work."""
        return next(metric["value"] for metric in self.call("Performance.getMetrics")["metrics"] if metric["name"] == "TaskDuration")

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, a promise awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console shows as an error or warning, and exceptions of scripts."""
        self.run("new Promise(done => setTimeout(done))")
        mine = [event for event in self.pipe.events if event.get("sessionId") == self.session]
        found = [event["params"] for event in mine if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
        found += [event["params"] for event in mine if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning", "assert")]
        return [json.dumps(one) for one in found]

    def requests(self) -> list[str]:
        return [event["params"]["request"]["url"] for event in self.pipe.events if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"]

    def window(self, width: int, height: int = 1000, dark: bool = False, printed: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])

    def key(self, name: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, text=text if kind == "keyDown" else "", windowsVirtualKeyCode={"Tab": 9, "Enter": 13, " ": 32}.get(name, 0))

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def paper(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


PLACED = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
"""The browser reads what it is told from descriptor 3 and answers on 4."""


def pipe() -> tuple[int, int]:
    """A pipe whose ends are neither 3 nor 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved


@contextmanager
def started() -> Iterator[Pipe]:
    """A browser of its own, with an empty profile."""
    ours, theirs = pipe(), pipe()
    with tempfile.TemporaryDirectory(prefix="xlaport-browser-", ignore_cleanup_errors=True) as profile:
        words = [program(), *FLAGS, f"--user-data-dir={profile}"]
        command = [sys.executable, "-c", PLACED, str(theirs[0]), str(ours[1]), *words]
        process = subprocess.Popen(command, pass_fds=(theirs[0], ours[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs[0]), os.close(ours[1])
        try:
            yield Pipe(ours[0], theirs[1])
        finally:
            process.terminate()
            process.wait(LIMIT)
            os.close(ours[0]), os.close(theirs[1])
