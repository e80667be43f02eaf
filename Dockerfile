# The program on a small base: docker build -t oarlock .
# With its version: docker build --build-arg STAMP="$(tools/version-stamp github.com/oarlock-dev/oarlock/cmd/oarlock/internal/cli)" -t oarlock .

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG STAMP=""
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w $STAMP" -o /out/oarlock ./cmd/oarlock

# Tasks are programs: the base has a shell, and what else they need goes into an image made FROM this one.
FROM debian:bookworm-slim
RUN apt-get update \
	&& apt-get install -y --no-install-recommends ca-certificates curl tini tzdata \
	&& rm -rf /var/lib/apt/lists/* \
	&& useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/oarlock --shell /usr/sbin/nologin oarlock \
	&& install -d -o oarlock -g oarlock -m 0700 /var/lib/oarlock
COPY --from=build /out/oarlock /usr/local/bin/oarlock
USER 10001:10001
WORKDIR /var/lib/oarlock
ENV HOME=/var/lib/oarlock OARLOCK_STATE_DIR=/var/lib/oarlock
# tini reaps what the guard's own death leaves, and passes signals on: TERM drains.
ENTRYPOINT ["/usr/bin/tini", "--", "oarlock"]
CMD ["worker"]
STOPSIGNAL SIGTERM
