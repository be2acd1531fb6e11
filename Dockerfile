# memalign's command line. Build: docker build -t memalign .   Use: docs/how-to/docker.md
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

FROM python:3.12-slim
# Whoever runs it (docker run --user) may write there: the registry, paid answers, embedded models.
RUN useradd --create-home --uid 1000 memalign && install -d -m 1777 /data
COPY --from=build /opt/memalign /opt/memalign
# A build that cannot run its own command must fail here, and not at its first user.
RUN /opt/memalign/bin/memalign --version
ENV PATH=/opt/memalign/bin:$PATH HOME=/data PYTHONUNBUFFERED=1 MEMALIGN_REGISTRY=sqlite:////data/memalign.db
USER memalign
VOLUME /data
WORKDIR /work
ENTRYPOINT ["memalign"]
CMD ["--help"]
