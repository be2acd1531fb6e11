# memalign's command line, and by `--target server` the server of compose.yaml. Use: docs/how-to/deploy.md
FROM python:3.12-slim AS build
# For a mirror: docker build --build-arg PIP_INDEX_URL=…
ARG PIP_INDEX_URL
WORKDIR /src
RUN python -m venv /opt/memalign
COPY requirements/runtime.txt requirements/
# The lock is complete and has the hash of every file: pip resolves nothing and takes nothing else.
RUN /opt/memalign/bin/python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements/runtime.txt
COPY packages/memalign packages/memalign
RUN /opt/memalign/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation ./packages/memalign

FROM build AS build-server
COPY requirements/server.txt requirements/
RUN /opt/memalign/bin/python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements/server.txt
COPY packages/memalign-server packages/memalign-server
RUN /opt/memalign/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation ./packages/memalign-server

FROM python:3.12-slim AS base
# Whoever runs it (docker run --user) may write there: the registry, paid answers, embedded models.
RUN useradd --create-home --uid 1000 memalign && install -d -m 1777 /data
ENV PATH=/opt/memalign/bin:$PATH HOME=/data PYTHONUNBUFFERED=1 MEMALIGN_REGISTRY=sqlite:////data/memalign.db

FROM base AS server
COPY --from=build-server /opt/memalign /opt/memalign
RUN /opt/memalign/bin/memalign serve --help
USER memalign
VOLUME /data
WORKDIR /data
EXPOSE 8321
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/health', timeout=4)"]
ENTRYPOINT ["memalign"]
CMD ["serve", "--host", "0.0.0.0"]

FROM base
COPY --from=build /opt/memalign /opt/memalign
# A build that cannot run its own command must fail here, and not at its first user.
RUN /opt/memalign/bin/memalign --version
USER memalign
VOLUME /data
WORKDIR /work
ENTRYPOINT ["memalign"]
CMD ["--help"]
