"""JupyterLab in the container: a token always, one kernel, the workspace as its root."""

import os
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

c = get_config()  # noqa: F821  # given by traitlets

# Taken out of the environment: kernels and terminals need none of it.
PREFIX = Path(os.environ.pop("WELLFED_PREFIX", "/opt/env"))
WORKSPACE = os.environ.pop("WELLFED_WORKSPACE", "/workspace")
TOKEN = Path(os.environ.pop("WELLFED_TOKEN_FILE")).read_text().strip()
if not TOKEN:
    raise SystemExit("error: the token is empty; expected one in WELLFED_TOKEN_FILE")

c.ServerApp.ip = os.environ.pop("WELLFED_BIND", "127.0.0.1")
c.ServerApp.port = int(os.environ.pop("WELLFED_PORT", "8888"))
c.ServerApp.port_retries = 0  # the published port, or an error
c.ServerApp.open_browser = False
c.ServerApp.root_dir = WORKSPACE
c.ServerApp.allow_root = os.geteuid() == 0  # only rootless Docker comes here as root
c.ServerApp.quit_button = False  # it would end the container
c.IdentityProvider.token = TOKEN
# A password set in the browser would outlive the token.
c.PasswordIdentityProvider.allow_password_change = False
c.PasswordIdentityProvider.hashed_password = ""


class LockedKernel(KernelSpecManager):
    """The locked environment is the only kernel, whatever a home or a system folder holds."""

    def _kernel_dirs_default(self):
        return [str(PREFIX / "share" / "jupyter" / "kernels")]


c.ServerApp.kernel_spec_manager_class = LockedKernel
c.KernelSpecManager.allowed_kernelspecs = {"python3"}
c.KernelSpecManager.ensure_native_kernel = True

# A login shell, as over ssh: it reads the container's environment.
c.ServerApp.terminado_settings = {"shell_command": ["/bin/bash", "-l"]}

# There may be no trash on a mounted folder's disk.
c.FileContentsManager.delete_to_trash = False

# Its greeting would print the port inside; ours has the one outside.
c.Application.log_level = "WARN"

# Nothing is asked of the internet.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.handlers.announcements.NeverCheckForUpdate"
