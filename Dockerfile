# The service alone; the database is another container. Built from this folder:
#   docker build -t royal-rendezvous .
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements/server.txt requirements/server.txt
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements/server.txt
COPY pyproject.toml README.md LICENSE openapi.yaml ./
COPY service service
COPY migrations migrations
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /nonexistent rendezvous && install -d -o rendezvous -m 700 /keys
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 HOST=0.0.0.0 PORT=8000 LOG=json
USER rendezvous
EXPOSE 8000 8001
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
CMD ["rendezvous", "serve"]
