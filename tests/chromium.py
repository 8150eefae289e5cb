"""A headless Chromium, driven over its debugging pipe: no driver to install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page; use as a context. What it asks for and complains of is kept."""

    def __init__(self, path: Path, width: int = 1280) -> None:
        self.url = path.resolve().as_uri()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._width = width
        self._count = 0
        self._rest = b""

    def __enter__(self) -> Page:
        assert PROGRAM is not None, "the caller skips without it"
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # the browser reads descriptor 3 and writes descriptor 4
        swap = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        command = ["/bin/bash", "-c", swap, PROGRAM, *SWITCHES,
                   f"--user-data-dir={self._profile.name}", 
                   f"--window-size={self._width},900"]  # fmt: skip
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        made = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=self.url)
        self._until("Page.loadEventFired")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page.

        Raises:
            AssertionError: it threw.
        """
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key, down and up, for what has the focus."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, nativeVirtualKeyCode=code)  # fmt: skip

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its answer."""
        self._count += 1
        sent: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            sent["sessionId"] = self._session
        os.write(self._to, json.dumps(sent).encode() + b"\0")
        while (told := self._read()).get("id") != self._count:
            self._note(told)
        assert "error" not in told, told
        found: dict[str, Any] = told["result"]
        return found

    def _until(self, event: str) -> None:
        while (told := self._read()).get("method") != event:
            self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        match told.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["params"]["request"]["url"])
            case "Log.entryAdded" | "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(told["params"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
