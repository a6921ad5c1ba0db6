"""A headless Chromium, driven by its own protocol over a pipe: no driver is needed."""

import base64
import contextlib
import json
import os
import pathlib
import select
import subprocess
import time
from typing import Any

_SWITCHES = (
    "--headless",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--window-size=1000,900",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0  # seconds
_STATE = "document.activeElement.outerHTML.slice(0, 200) + '; ' + document.body.innerText"


class Chromium:
    """One browser with one page.

    Args:
        program: the browser.
        folder: where it keeps its profile.
    """

    def __init__(self, program: str, folder: pathlib.Path) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        # It reads from descriptor 3 and writes to descriptor 4.
        script = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, program, *_SWITCHES, f"--user-data-dir={folder}"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._received = b""
        self._last = 0
        self._session: str | None = None
        self.requested: list[str] = []  # what the page has asked the network for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Network.enable")
        # Otherwise elements get the focus only while the browser's window has it.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        """Ends the browser."""
        with contextlib.suppress(OSError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the DevTools protocol and returns its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("method") == "Network.requestWillBeSent":
                self.requested.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], _PATIENCE)
            part = os.read(self._read, 1 << 16) if ready else b""
            if not part:
                raise OSError("the browser does not answer")
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        """Loads a page to its end."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """Returns the value of an expression of JavaScript."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, script: str) -> None:
        """Waits until an expression holds."""
        end = time.monotonic() + _PATIENCE
        while not self.evaluate(script):
            assert time.monotonic() < end, f"never came true: {script}; {self.evaluate(_STATE)}"
            time.sleep(0.05)

    def write(self, selector: str, text: str) -> None:
        """Types into the first element that a CSS selector finds, once it has the focus."""
        self.wait(f"document.activeElement === document.querySelector({json.dumps(selector)})")
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "", modifiers: int = 0) -> None:
        """Presses a key; modifiers: 2 is Ctrl."""
        of_key = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **of_key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **of_key)

    def point(self, selector: str, click: bool = False) -> None:
        """Moves the mouse over the first element that a CSS selector finds, and clicks."""
        middle = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            "return {x: b.x + b.width / 2, y: b.y + b.height / 2} })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **middle)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                button = {"button": "left", "clickCount": 1}
                self.call("Input.dispatchMouseEvent", type=kind, **button, **middle)

    def screenshot(self, path: pathlib.Path) -> None:
        """Writes the whole page as PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
