# docker build -t vitrine .                                      torch as the default package index has it
# docker build -t vitrine --build-arg TORCH_INDEX=<address> .    torch from another index as well
# docker build -t vitrine --build-arg DEVICE=cuda .              on a GPU: run it with --gpus all
#
# On Linux the default index's torch carries CUDA and runs without a GPU too, but takes gigabytes. For a small CPU image give
# TORCH_INDEX the address that PyTorch's installation page names for CPU builds; the version pinned in constraints.txt is taken from it.
#
# deploy/compose.yaml runs it behind nginx with TLS and as few rights as it needs.
#
# docker run -p 8000:8000 -v vitrine:/data vitrine                                               at http://localhost:8000
# docker run -p 8000:8000 -v vitrine:/data -e VITRINE_ALLOWED_HOSTS=vitrine.example vitrine      for other machines, by that name
# In a container visitors are apart, and models of the hub need VITRINE_ALLOW_MODELS=yes: see docs/visitors.md. For yourself alone:
# docker run -p 127.0.0.1:8000:8000 -v vitrine:/data -e VITRINE_VISITORS=together -e VITRINE_ALLOW_MODELS=yes -e VITRINE_ALLOW_RUNS=yes vitrine

ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir -c constraints.txt hatchling \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:${PYTHON}-slim
ARG TORCH_INDEX=""
# The dependencies come first and from two files, so that this layer lasts as long as they do.
WORKDIR /tmp/install
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > wanted.txt \
    && pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt -r wanted.txt
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels pip install --no-cache-dir --no-deps /wheels/*.whl

# A user who can log in nowhere and writes to /data and /tmp alone: the rest may be read-only, as deploy/compose.yaml has it.
RUN useradd --no-create-home --home-dir /data --shell /usr/sbin/nologin --uid 1000 vitrine && install -d -m 0700 -o vitrine -g vitrine /data
USER vitrine
WORKDIR /data
VOLUME /data

ARG DEVICE=cpu
ENV VITRINE_HOST=0.0.0.0 \
    VITRINE_PORT=8000 \
    VITRINE_DEVICE=${DEVICE} \
    VITRINE_HOME=/data/vitrine \
    HF_HOME=/data/hub \
    MPLCONFIGDIR=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"VITRINE_PORT\"]}/healthz', timeout=4)"]
CMD ["vitrine", "serve"]
