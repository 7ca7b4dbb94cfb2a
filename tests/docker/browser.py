"""Chromium without a window, over its DevTools protocol: go, look, click, type, photograph."""

import base64
import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Iterator, Optional

import websocket

WAIT_S = 60
FIND = """(() => {
  const shown = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
  const found = [...document.querySelectorAll(%s)].filter(shown)
    .find(e => %s === null || e.textContent.trim() === %s);
  if (!found) return null;
  const r = found.getBoundingClientRect();
  return [r.left + r.width / 2, r.top + r.height / 2];
})()"""


def program() -> Optional[str]:
    """Chromium's path, where there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Page:
    """One tab."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(
            address, timeout=WAIT_S, suppress_origin=True, http_no_proxy=["127.0.0.1"]
        )
        self.number = 0

    def send(self, method: str, **parameters) -> dict:
        """A command's result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("method") == "Page.javascriptDialogOpening":  # "leave this page?"
                yes = {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
                self.socket.send(json.dumps(yes))
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script: str):
        """The value of a JavaScript expression; None while a page is on its way."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    def go(self, address: str) -> None:
        self.send("Page.enable")
        self.send("Page.navigate", url=address)

    def wait(self, script: str, seconds: float = WAIT_S):
        """The first value that is true."""
        end = time.monotonic() + seconds
        while True:
            found = self.run(script)
            if found:
                return found
            assert time.monotonic() < end, f"not within {seconds} s: {script}\n{self.text()[-500:]}"
            time.sleep(0.2)

    def text(self) -> str:
        """What a person could read."""
        return self.run("document.body ? document.body.innerText : ''") or ""

    def click(self, selector: str, text: Optional[str] = None) -> None:
        """Click the first one that is shown, with this text if given, as a mouse does."""
        words = json.dumps(text)
        x, y = self.wait(FIND % (json.dumps(selector), words, words))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def type(self, text: str) -> None:
        """Type text; a line end is Enter."""
        for part in text.splitlines(keepends=True):
            self.send("Input.insertText", text=part.rstrip("\n"))
            if part.endswith("\n"):
                key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
                self.send("Input.dispatchKeyEvent", type="keyDown", **key)
                self.send("Input.dispatchKeyEvent", type="keyUp", **key)

    def photograph(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A browser with a profile of its own in `folder`."""
    command = [
        str(program()),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-proxy-server",
    ]
    command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "--no-first-run"]
    command += ["--window-size=1400,1000", "--disable-dev-shm-usage", "about:blank"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        file, end = folder / "DevToolsActivePort", time.monotonic() + WAIT_S
        while not (file.exists() and file.read_text().strip()):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "the browser does not start"
            time.sleep(0.1)
        port = file.read_text().split()[0]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/json", timeout=30) as answer:
            tabs = json.load(answer)
        page = Page(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
        try:
            yield page
        finally:
            page.socket.close()
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
