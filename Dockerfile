# A server for a run folder that t2t-trainer or t2t-import has made:
#
#     docker build -t t2t_lite .
#     docker run --rm -p 127.0.0.1:8080:8080 -v RUN_FOLDER:/run_folder:ro t2t_lite
#
# With NVIDIA's GPUs: --build-arg TENSORFLOW='tensorflow[and-cuda]', and `docker run --gpus=all`.
# Any other command: docker run --rm -v RUN_FOLDER:/run_folder t2t_lite t2t-decoder --output_dir=/run_folder ...
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build
ARG TENSORFLOW=tensorflow
ARG EXTRAS=serve,ct2,languages
WORKDIR /source
COPY . .
RUN python -m venv /opt/t2t_lite \
    && /opt/t2t_lite/bin/pip install --no-cache-dir --no-compile "${TENSORFLOW}" ".[${EXTRAS}]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/t2t_lite /opt/t2t_lite
# Programs may write into this home alone, such as kept exports of a run folder that is read-only.
RUN useradd --create-home --uid 1000 t2t
USER t2t
WORKDIR /home/t2t
ENV PATH=/opt/t2t_lite/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8080
# The container's own network is the border: the port is published where `docker run -p` says.
CMD ["t2t-serve", "--output_dir=/run_folder", "--host=0.0.0.0"]
