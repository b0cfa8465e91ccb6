# Parallax with all six frameworks, for CPU:
#   docker build -t parallax .
#   docker run --rm -v "$PWD/results:/data/results" parallax train framework=sb3 algorithm=ppo env=InvertedPendulum-v4 steps=20480
FROM python:3.11-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends libtcmalloc-minimal4 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/parallax
COPY . .
RUN pip install --no-cache-dir '.[all]' \
    && pip install --no-cache-dir --no-deps --ignore-requires-python cleanrl==1.2.0
WORKDIR /data
ENTRYPOINT ["parallax"]
CMD ["--help"]
