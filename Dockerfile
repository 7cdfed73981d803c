# syntax=docker/dockerfile:1
# One static binary, no shell, no root: the image is the binary and the
# certificates of public authorities. The same sources and arguments make the same
# binary, and with --build-arg SOURCE_DATE_EPOCH the same image.
FROM --platform=$BUILDPLATFORM golang:1.26.9 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY api/go.mod api/go.sum ./api/
COPY api/qosproxy/cql/go.mod api/qosproxy/cql/go.sum ./api/qosproxy/cql/
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.1.0
ARG REVISION=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags grpcnotrace -buildvcs=false \
    -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" -o /out/qosproxy ./cmd/qosproxy

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="qosproxy" \
      org.opencontainers.image.description="A stateless QoS read proxy for Apache Cassandra" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://github.com/qosproxy/qosproxy" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/qosproxy /qosproxy
USER 65532:65532
# gRPC, HTTP/JSON, admin (metrics and probes).
EXPOSE 50051 8080 8081
# Alive and not ready: orchestrators replace what is unhealthy, which helps nobody
# while Cassandra is down.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["/qosproxy", "health", "--live", "--config", "/etc/qosproxy/qosproxy.yaml"]
ENTRYPOINT ["/qosproxy"]
CMD ["serve", "--config", "/etc/qosproxy/qosproxy.yaml"]
