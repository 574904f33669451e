# docker build -t vitrine .                                      torch as the default package index has it
# docker build -t vitrine --build-arg TORCH_INDEX=<address> .    torch from another index as well
# docker build -t vitrine --build-arg DEVICE=cuda .              on a GPU: run it with --gpus all
#
# On Linux the default index's torch carries CUDA and runs without a GPU too, but takes gigabytes. For a small CPU image give
# TORCH_INDEX the address that PyTorch's installation page names for CPU builds; the version pinned in constraints.txt is taken from it.
#
# All that is installed is checked against the hashes in deploy/requirements, which `make pins` makes again. They are those of the default
# index. A torch from TORCH_INDEX is another file: it is checked where TORCH_SHA256 says the hash of its wheel, and else it is trusted as
# that address is.
#
# The HEIC photos of phones are read with --build-arg HEIF=yes. It brings libx265, which is under the GPL: see NOTICE.
# What is in an image, and under which licences: docker run --rm vitrine cat /usr/share/vitrine/sbom.cdx.json (CycloneDX)
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
RUN pip install --no-cache-dir --require-hashes -r deploy/requirements/build.txt \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:${PYTHON}-slim AS installed
ARG TORCH_INDEX=""
ARG TORCH_SHA256=""
ARG HEIF=no
# The dependencies come first and from files of their own, so that this layer lasts as long as they do.
WORKDIR /tmp/install
COPY deploy/requirements/torch.txt deploy/requirements/server.txt deploy/requirements/heif.txt ./
RUN if [ -n "$TORCH_INDEX" ]; then \
        sed -n 's/^\(torch==[^ ]*\).*/\1/p' torch.txt > own.txt \
        && if [ -n "$TORCH_SHA256" ]; then sed -i "s/$/ --hash=sha256:$TORCH_SHA256/" own.txt; \
            else echo "torch is taken from $TORCH_INDEX without a hash to check it by; TORCH_SHA256 gives one"; fi \
        && pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" -r own.txt; \
    else pip install --no-cache-dir --no-deps --require-hashes -r torch.txt; fi \
    && pip install --no-cache-dir --require-hashes -r server.txt \
    && if [ "$HEIF" = yes ]; then pip install --no-cache-dir --require-hashes -r heif.txt; fi
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels pip install --no-cache-dir --no-deps /wheels/*.whl && pip check

FROM installed AS listed
COPY deploy/requirements/supply.txt ./
RUN python -m venv /listing && /listing/bin/pip install --no-cache-dir --require-hashes -r supply.txt \
    && /listing/bin/cyclonedx-py environment --output-reproducible --output-format JSON --output-file /sbom.cdx.json "$(command -v python)"

FROM installed
COPY --from=listed /sbom.cdx.json /usr/share/vitrine/sbom.cdx.json

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
