"""A client of JupyterLab's server: its pages, a kernel, a terminal."""

import json
import re
import time
import urllib.error
import urllib.request
import uuid
from typing import Optional, Tuple

import websocket

WAIT_S = 90


class Lab:
    """One server, as somebody with the token sees it.

    Args:
        port: on 127.0.0.1.
        token: None: somebody without one.
    """

    def __init__(self, port: int, token: Optional[str]):
        self.port, self.token = port, token

    def ask(self, path: str, method: str = "GET", body: Optional[dict] = None) -> Tuple[int, str]:
        """Status and text of a request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if self.token:
            request.add_header("Authorization", f"token {self.token}")
        data = None if body is None else json.dumps(body).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, data, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(errors="replace")

    def get(self, path: str):
        """JSON of an address that must answer."""
        status, text = self.ask(path)
        assert status == 200, (status, text[:500])
        return json.loads(text)

    def _socket(self, path: str) -> websocket.WebSocket:
        header = [f"Authorization: token {self.token}"] if self.token else []
        address = f"ws://127.0.0.1:{self.port}{path}"
        return websocket.create_connection(
            address, header=header, timeout=WAIT_S, http_no_proxy=["127.0.0.1"]
        )

    def run_in_kernel(self, code: str) -> str:
        """What code prints in a new kernel."""
        status, text = self.ask("/api/kernels", "POST", {"name": "python3"})
        assert status == 201, (status, text)
        kernel = json.loads(text)["id"]
        socket = self._socket(f"/api/kernels/{kernel}/channels")
        try:
            message = uuid.uuid4().hex
            header = {
                "msg_id": message,
                "msg_type": "execute_request",
                "username": "",
                "version": "5.3",
            }
            content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
            content["user_expressions"] = {}
            whole = {"header": {**header, "session": message}, "parent_header": {}, "metadata": {}}
            socket.send(json.dumps({**whole, "content": content, "channel": "shell"}))
            return self._collect(socket, message)
        finally:
            socket.close()
            self.ask(f"/api/kernels/{kernel}", "DELETE")

    @staticmethod
    def _collect(socket: websocket.WebSocket, message: str) -> str:
        printed, end = "", time.monotonic() + WAIT_S
        while time.monotonic() < end:
            answer = json.loads(socket.recv())
            if answer.get("parent_header", {}).get("msg_id") != message:
                continue
            kind, content = answer["msg_type"], answer["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind == "error":
                raise AssertionError("\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                return printed
        raise AssertionError(f"the kernel was not done within {WAIT_S} s: {printed}")

    def open_terminal(self) -> "Terminal":
        """A new terminal."""
        status, text = self.ask("/api/terminals", "POST", {})
        assert status == 200, (status, text)
        return Terminal(self._socket(f"/terminals/websocket/{json.loads(text)['name']}"))


class Terminal:
    """A terminal in the browser, without the browser."""

    def __init__(self, socket: websocket.WebSocket):
        self.socket, self.text = socket, ""

    def type(self, line: str) -> None:
        """A line, and Enter."""
        self.socket.send(json.dumps(["stdin", line + "\r"]))

    def wait_for(self, pattern: str) -> str:
        """All that was shown, once the pattern is in it."""
        end = time.monotonic() + WAIT_S
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, self.text
            kind, *rest = json.loads(self.socket.recv())
            if kind == "stdout":
                self.text += rest[0]
        return self.text

    def close(self) -> None:
        self.socket.close()
