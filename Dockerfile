# syntax=docker/dockerfile:1
# The worker in a small image: docker build -t appproxy-worker .
# The release binary needs nothing but glibc and the system's root certificates.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package appproxy-shell-tokio --bin appproxy-worker

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin appproxy
COPY --from=build /src/target/release/appproxy-worker /usr/local/bin/appproxy-worker
USER 10001:10001
# The data listener and, where admin.bind_address is opened for it, metrics and the status page.
EXPOSE 8080 9464
# Ready means that the first pull was applied. Without curl in the image, bash asks.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/appproxy-worker"]
CMD ["run", "--config", "/etc/appproxy-worker/config.yaml"]
