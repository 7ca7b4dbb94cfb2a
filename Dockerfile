# The image: the locked environment, JupyterLab, SSH and TensorBoard. `make image` builds it and says how to run it.
#
#   env       scripts/env.sh fills /opt/env, from the locks alone
#   base      Debian and what the services need; the NVIDIA driver comes from the host and CUDA from the lock,
#             so this is no CUDA base image
#   runtime   base + environment + code: what is used
#   dev       runtime + compilers, for packages that compile something (make image TARGET=dev)
#
# ENV_FROM  conda (Python 3.9, PyTorch 2.6, CUDA 11.8), channels or wheels, as in the README
# BASE_IMAGE  any Debian 11 or newer on x86_64
# Docker 20.10 builds it with its own frontend. Packages and caches of the build stay outside the image.
ARG BASE_IMAGE=debian:bookworm-20260713-slim@sha256:7b140f374b289a7c2befc338f42ebe6441b7ea838a042bbd5acbfca6ec875818

# ---------------------------------------------------------------- env
FROM ${BASE_IMAGE} AS env
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update -q && apt-get install -yq --no-install-recommends ca-certificates python3 python3-venv
ARG ENV_FROM=conda
WORKDIR /opt/wellfed
COPY scripts/env.sh scripts/conda_install.py scripts/conda_engine.py scripts/conda_errors.py scripts/lock_files.py scripts/
COPY scripts/env scripts/env/
COPY conda-lock.yml ./
COPY environments environments/
COPY locks locks/
# Secrets, both optional: `ca`, the certificates of a network that signs for others; `settings`, lines KEY=VALUE
# such as an index with a password. They are there for this step alone.
# The user can't write beside the packages, so Python's compiled files are made here, once.
RUN --mount=type=cache,target=/var/cache/wellfed \
    --mount=type=secret,id=ca \
    --mount=type=secret,id=settings \
    if [[ -e /run/secrets/ca ]]; then \
        export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca REQUESTS_CA_BUNDLE=/run/secrets/ca; fi; \
    if [[ -e /run/secrets/settings ]]; then set -a; source /run/secrets/settings; set +a; fi; \
    XDG_CACHE_HOME=/var/cache/wellfed ENV_FROM=$ENV_FROM VENV=/opt/env scripts/env.sh || { tail -n 40 .cache/env.log; exit 1; }; \
    /opt/env/bin/python -m compileall -qq -j 0 /opt/env/lib || true; \
    rm -rf /opt/env/pkgs /opt/env/.lock
COPY scripts/sbom.py scripts/
RUN .tools/bin/python scripts/sbom.py /opt/env >sbom.json

# ---------------------------------------------------------------- base
FROM ${BASE_IMAGE} AS base
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG ENV_FROM=conda
ARG DEBIAN_FRONTEND=noninteractive
# A virtual environment links to the system's Python; the conda ways bring their own, and the system none.
# sshd's host keys are made at the first start, never here: all copies of the image would share them.
RUN apt-get update -q \
    && apt-get install -yq --no-install-recommends \
        ca-certificates git less libnss-wrapper make openssh-client openssh-server procps tini \
        $([[ $ENV_FROM != wheels ]] || echo python3 python3-venv) \
    && rm -rf /etc/ssh/ssh_host_* /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/cache/ldconfig/aux-cache /var/log/*.log /var/log/apt /tmp/* /var/tmp/* ~/.cache
# /opt belongs to root and stays as it was built. "*" is no password at all; "!" would lock the account.
RUN groupadd --gid 1000 user \
    && useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash --password '*' user \
    && install -d -o user -g user /home/user/.state \
    && install -d -o user -g user -m 1777 /workspace

# ---------------------------------------------------------------- runtime
FROM base AS runtime
COPY --from=env /opt/env /opt/env
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    VENV=/opt/env \
    LANG=C.UTF-8 \
    PYTHONNOUSERSITE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NUMBA_CACHE_DIR=/home/user/.state/numba \
    MPLCONFIGDIR=/home/user/.state/matplotlib
# Without a mounted folder there is something to open; a user of another number may save it too.
COPY --chown=user:user notebooks /workspace/notebooks/
RUN chmod -R a+rwX /workspace
COPY docker/gitconfig /etc/gitconfig
COPY docker/profile.sh /etc/profile.d/wellfed.sh
COPY docker/lab_settings.json /etc/jupyter/labconfig/default_setting_overrides.json
COPY docker /opt/docker/
WORKDIR /opt/wellfed
COPY LICENSE Makefile README.md conda-lock.yml environment.yml virtual-packages.yml pyproject.toml ./
COPY environments environments/
COPY locks locks/
COPY notebooks notebooks/
COPY scripts scripts/
COPY --from=env /opt/wellfed/sbom.json ./
COPY configs configs/
COPY train train/
# the last word: the environment works here, for the user, and PyTorch is the CUDA build that the lock names
RUN setpriv --reuid user --regid user --init-groups python scripts/image_check.py
WORKDIR /workspace
EXPOSE 8888 2222 6006
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["/opt/docker/healthcheck.sh"]
# becomes the user first, then puts tini in front: process 1 is the user's, too
ENTRYPOINT ["/opt/docker/entrypoint.sh"]
CMD []

# ---------------------------------------------------------------- dev
FROM runtime AS dev
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update -q \
    && apt-get install -yq --no-install-recommends build-essential cmake gdb ninja-build pkg-config \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt

# without a target: runtime
FROM runtime
