# syntax=docker/dockerfile:1
# One static binary, no shell, no root: the image is the binary and the
# certificates of public authorities.
FROM golang:1.26.9 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=${VERSION}" -o /out/qosproxy ./cmd/qosproxy

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="qosproxy" \
      org.opencontainers.image.description="A stateless QoS read proxy for Apache Cassandra" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.source="https://github.com/qosproxy/qosproxy" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/qosproxy /qosproxy
USER 65532:65532
# gRPC, HTTP/JSON, admin (metrics and probes).
EXPOSE 50051 8080 8081
ENTRYPOINT ["/qosproxy"]
CMD ["serve", "--config", "/etc/qosproxy/qosproxy.yaml"]
