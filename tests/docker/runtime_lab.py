"""A container with JupyterLab, and what a browser asks of it."""

import re
import subprocess
import urllib.error
import urllib.request

import processes
from runtime_box import IS_ROOT, free_port

OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Lab:
    """A container with JupyterLab."""

    def __init__(self, box, **settings):
        self.box, self.port = box, free_port()
        # Others may not read the Python of these tests: root stays root, as with rootless Docker.
        uid_map = box.folder / "uid_map"
        uid_map.write_text("0 1000 1\n")
        self.container = box.start(
            BIND="127.0.0.1",
            JUPYTER_PORT=self.port,
            RUN_AS_ROOT=int(IS_ROOT),
            WELLFED_UID_MAP=uid_map,
            **settings,
        )

    def ready(self):
        assert processes.wait_until(
            lambda: self.container.process.poll() is not None or self.health().returncode == 0, 60
        )
        assert self.container.process.poll() is None, self.container.log
        return self

    def token(self):
        return (self.box.run / "jupyter" / "token").read_text()

    def ask(self, path, token=None, method="GET", data=None):
        headers = {} if token is None else {"Authorization": f"token {token}"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", method=method, headers=headers, data=data
        )
        try:
            with OPEN.open(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def health(self, timeout_s=5):
        words = [str(self.box.scripts / "healthcheck.sh")]
        check = self.box.scripts / "healthcheck.py"
        text = re.sub(r"TIMEOUT_S = \d+", f"TIMEOUT_S = {timeout_s}", check.read_text())
        check.write_text(text)  # Docker gives the whole check 10 s; the tests less
        environment = self.box.environment()
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=30
        )
