# simile-plugin, its recipes and all that they need:
#
#     docker build -t simile --build-arg PIP_EXTRA_INDEX_URL=ADDRESS .    # for the CPU
#     docker build -t simile-cuda .                                       # for NVIDIA GPUs
#
# ADDRESS is that of PyTorch's CPU index (see "Get started" on its site); without it torch comes from
# PyPI, with the CUDA libraries: gigabytes more, and it runs on the CPU too. Then, in your folder:
#
#     docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" simile \
#         simile score -r ref.en -i output.en
#     docker run --rm --gpus all simile-cuda simile doctor
FROM python:3.12-slim-bookworm

# gcc is for the row kernel of encoder training; fairseq comes as a wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev git \
    && rm -rf /var/lib/apt/lists/*

COPY . /simile-plugin
ARG PIP_EXTRA_INDEX_URL=
ENV SIMILE_VENV=/opt/simile
RUN PIP_NO_CACHE_DIR=1 bash -c '. /simile-plugin/recipes/common.sh && setup_venv' \
    && rm -rf /opt/simile/wheels

# HOME: --user gives a user without one. NVIDIA_...: what --gpus hands on.
ENV VIRTUAL_ENV=/opt/simile \
    PATH=/opt/simile/bin:$PATH \
    HOME=/tmp \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /data
CMD ["simile", "--help"]
