# `make help` lists the targets. Only Go is needed. The rest is fetched: tools and
# modules by Go, Cassandra's jars by Maven and, as root on Debian, a JDK and Maven by
# apt-get. Without root `make demo` and `make test` say in one line what to install.

export GOTOOLCHAIN := auto
GO     ?= go
BIN    := bin
TOOLS  := $(BIN)/tools
# The version of this tree, which manifests and chart deploy. A build of a tag has the tag's.
RELEASE := $(shell sed -n 's/^var version = "\(.*\)"$$/\1/p' cmd/qosproxy/main.go)
VERSION := $(patsubst v%,%,$(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo $(RELEASE)))
# The image: registry, repository and tag. Manifests and chart name the same one by default.
IMAGE   ?= ghcr.io/qosproxy/qosproxy:$(RELEASE)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Without gRPC's own pages of traces, which nobody serves.
TAGS    := grpcnotrace

# Which benchmarks run, and how often: benchstat tells noise from a change by six
# runs or more.
GOBENCH ?= .
COUNT ?= 6

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/qosproxy
	CGO_ENABLED=0 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/qosproxy ./cmd/qosproxy

# What demonstrates, measures and breaks the product on real clusters is a module of its
# own, whose go.mod the product does not share. Some of its tests need the tag lab.
LAB := internal/lab
# The client for Go is a module of its own, and the part that needs the driver another: who
# imports them does not get the server's modules. Their tests are in internal/apitest.
CLIENT := api api/qosproxy/cql
# Build tags are separated by commas.
LAB_TAGS := lab,chaos,register

.PHONY: build-lab
build-lab: build ## build bin/qoslab, which demonstrates and measures bin/qosproxy
	cd $(LAB) && CGO_ENABLED=0 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o '$(abspath $(BIN))/qoslab' ./cmd/qoslab

.PHONY: demo
demo: build-lab ## boot a real three-node cluster and serve it (DEMO="--once" ends after one lookup)
	$(BIN)/qoslab demo $(DEMO)

# What waits has a neighbour that computes, which gets what is left of the CPUs: simulations have
# virtual time, and fuzzing has more of it here than alone.
.PHONY: test
test: test-unit-race ## everything: unit tests, a real Cassandra cluster, fuzzing, with the race detector
	@$(MAKE) -j 2 test-clients test-devcluster
	@$(MAKE) -j 2 test-acceptance test-simulations
	@$(MAKE) -j 3 test-cassandra h2spec fuzz FUZZTIME='$(or $(FUZZTIME),35s)'
	@$(MAKE) coverage

# Profiles are written by the tests themselves, so that nothing runs twice.
PROFILES := dist/coverage

# The packages that other people's lookups depend on, and what their tests must run of them.
COVERED       = executor,hedge,admission,coalesce,server,cassandra
COVERED_LEAST = 90
COVERAGE = cd internal/tools && $(GO) run ./coverage -least $(COVERED_LEAST) -of $(COVERED)
COVERED_BY = $(foreach p,unit computing unit-api unit-lab devcluster cassandra,../../$(PROFILES)/$(p).out)

.PHONY: coverage
coverage: ## coverage by package, from the profiles of make test-unit and make test-cluster; some must have 90 %
	@($(COVERAGE) $(COVERED_BY)) >$(PROFILES)/packages.txt; status=$$?; cat $(PROFILES)/packages.txt; exit $$status

.PHONY: coverage-report
coverage-report: ## the same, and write it into CONTRIBUTING.md
	@$(COVERAGE) -write ../../CONTRIBUTING.md $(COVERED_BY)

# The packages that have benchmarks.
BENCHED = $(shell grep -rl --include='*_test.go' --exclude-dir=lab '^func Benchmark' internal | xargs -n 1 dirname | sort -u | sed 's#^#./#')

.PHONY: test-unit
test-unit: test-unit-race test-simulations ## tests that need no cluster, and each benchmark once

.PHONY: test-unit-race
test-unit-race:
	@mkdir -p $(PROFILES)
	@$(MAKE) -j 2 test-unit-product test-unit-rest test-unit-lab test-unit-api

# Their tests compute in virtual time, which no neighbour disturbs.
COMPUTING = ./internal/admission ./internal/executor ./internal/planner

.PHONY: test-unit-product
test-unit-product:
	$(GO) test -race -short -coverprofile='$(PROFILES)/unit.out' \
	  $(filter-out $(COMPUTING),$(patsubst github.com/qosproxy/qosproxy%,.%,$(shell $(GO) list ./... | grep -v /internal/apitest)))

# Tests of keep-alives and floods wait: they have neighbours that do not.
.PHONY: test-unit-api test-unit-lab test-unit-rest
test-unit-api:
	$(GO) test -race -short -coverprofile='$(PROFILES)/unit-api.out' -coverpkg=github.com/qosproxy/qosproxy/api/... ./internal/apitest/...
	@for module in $(CLIENT); do echo "$$module"; (cd $$module && $(GO) test ./...) || exit 1; done
test-unit-lab:
	cd $(LAB) && $(GO) test -race -short -coverprofile='$(abspath $(PROFILES))/unit-lab.out' ./...
# What the race detector spares for other reasons than the number of simulated lookups comes first.
test-unit-rest:
	$(GO) test ./internal/server
	cd $(LAB) && $(GO) test ./report
	$(GO) test -short -run '^$$' -bench . -benchtime 1x $(BENCHED)
	cd internal/tools && $(GO) test ./coverage
	cd deploy/verify && $(GO) test -count=1 ./...

# The tests that simulate too many lookups for the race detector, and their packages.
SIMULATED  = $(shell grep -l 'underrace\.Simulations' internal/*/*_test.go)
SIMULATION = $(shell awk -F '[^A-Za-z0-9]+' '/^func Test/ {test = $$2} /underrace.Simulations/ {print test}' $(SIMULATED) | sort -u | paste -s -d '|' -)

.PHONY: test-simulations
test-simulations:
	@mkdir -p $(PROFILES)
	nice -n 19 $(GO) test -race -short -coverprofile='$(PROFILES)/computing.out' $(COMPUTING)
	nice -n 19 $(GO) test -run '^($(SIMULATION))$$' $(sort $(addprefix ./,$(dir $(SIMULATED))))
	cd $(LAB) && nice -n 19 $(GO) test ./simulate

.PHONY: test-clients
test-clients: $(TOOLS)/grpcurl ## clients in other languages (Python, TypeScript, Java, grpcurl) and the first lookups of the README
	@sh internal/tools/client-languages.sh
	QOSPROXY_CLIENT_TOOLS=required $(GO) test -count=1 -v ./internal/apitest/...

.PHONY: test-cluster
test-cluster: test-devcluster test-acceptance test-cassandra ## tests against a real Cassandra cluster that they boot themselves

.PHONY: test-devcluster test-acceptance test-cassandra
test-devcluster:
	@mkdir -p $(PROFILES)
	cd $(LAB) && $(GO) test -race -timeout 40m -coverprofile='$(abspath $(PROFILES))/devcluster.out' ./devcluster
test-acceptance:
	cd $(LAB) && $(GO) test -race -parallel 8 -timeout 40m ./acceptance
test-cassandra:
	@mkdir -p $(PROFILES)
	cd $(LAB) && $(GO) test -race -timeout 40m -tags lab -coverpkg=github.com/qosproxy/qosproxy/internal/cassandra \
	  -coverprofile='$(abspath $(PROFILES))/cassandra.out' ./cassandra

# deploy/compatibility.md has what they are to show.
VERSIONS ?= 4.0.19 4.1.10 6.0-alpha2

.PHONY: test-versions
test-versions: ## the core of the acceptance suite on real nodes of other versions of Cassandra (VERSIONS=4.1.10)
	@for version in $(VERSIONS); do echo "Cassandra $$version"; \
	  (cd $(LAB) && DEVCLUSTER_CASSANDRA=$$version $(GO) test -count=1 -timeout 40m -run '^(TestSixNodes|TestGrants)$$' ./acceptance) || exit 1; done

.PHONY: h2spec
h2spec: $(TOOLS)/h2spec ## test both front listeners against HTTP/2 by h2spec
	QOSPROXY_H2SPEC='$(abspath $(TOOLS))/h2spec' $(GO) test -count=1 -run TestHTTP2 -v ./internal/server

# How many frames make fuzz-frames sends. SEED=1234 sends those of another run again.
FRAMES ?= 10000000

.PHONY: fuzz-frames
fuzz-frames: ## send random and broken HTTP/2 frames to the gRPC listener (FRAMES=10000000)
	QOSPROXY_FRAMES='$(FRAMES)' QOSPROXY_SEED='$(SEED)' $(GO) test -count=1 -timeout 4h -run TestRandomFrames -v ./internal/server

.PHONY: chaos
chaos: ## break a real cluster under load and print the scoreboard; root, two hours (CHAOS="-chaos.scenarios=frozen")
	cd $(LAB) && $(GO) test -tags chaos -run TestChaos -count=1 -timeout 4h -v ./chaos -args -chaos.dir='$(abspath $(REPORTS))/chaos' $(value CHAOS)

.PHONY: chaos-short
chaos-short: ## the scenarios of make chaos that need no share of the CPUs, with shorter faults; eight minutes
	@$(MAKE) chaos CHAOS=-chaos.short

.PHONY: chaos-report
chaos-report: build-lab ## write the scoreboard of deploy/chaos/README.md from the newest verdicts (VERDICTS="folder folder")
	$(BIN)/qoslab chaos report deploy/chaos/README.md $(VERDICTS)

.PHONY: check-quorum
check-quorum: build ## check on a real cluster under faults that quorum_reads: replicas is linearizable; 15 minutes (CHECK="-register.keys=100000")
	cd $(LAB) && $(GO) test -tags register -run TestQuorumReads -count=1 -timeout 4h -v ./register -args -register.proxy='$(abspath $(BIN))/qosproxy' $(value CHECK)

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (20s)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' nice -n 19 sh internal/tools/fuzz.sh

.PHONY: bench bench-go
bench: bench-go
bench-go: ## benchmarks of the hot paths, with allocations (COUNT=6 times each)
	$(GO) test -short -run '^$$' -bench '$(GOBENCH)' -benchmem -count $(COUNT) ./internal/...

.PHONY: bench-compare
bench-compare: $(TOOLS)/benchstat ## benchmarks of this tree against the merge base with main
	@GO='$(GO)' GOBENCH='$(GOBENCH)' COUNT='$(COUNT)' sh internal/tools/bench-compare.sh

# The measurements of deploy/bench/README.md, each on clusters that it boots
# itself. BENCH=--long takes more time, BENCH="--only '16 callers' --length 10s" measures a
# part; REPORTS is the folder for the reports.
REPORTS ?= dist/reports

# Where make chaos-report looks for what make chaos has written.
VERDICTS ?= $(REPORTS)/chaos

EXPERIMENT = $(BIN)/qoslab experiment $(@:bench-%=%) --dir $(REPORTS) $(BENCH)

.PHONY: bench-all bench-targeting bench-targeting-vnodes bench-row-cache bench-coordinators bench-speculation bench-sizing bench-replication bench-vnodes bench-node-local bench-nodes bench-quorum
bench-all: bench-targeting bench-targeting-vnodes bench-row-cache bench-coordinators bench-speculation bench-sizing bench-replication bench-vnodes bench-node-local bench-nodes bench-quorum bench-tail bench-rings ## every experiment of deploy/bench
bench-targeting: build-lab ## what a 50-key lookup costs Cassandra, by the way it is asked
	$(EXPERIMENT)
bench-targeting-vnodes: build-lab ## the same with 1 and with 256 tokens a node
	$(EXPERIMENT)
bench-row-cache: build-lab ## targeting and the row cache together
	$(EXPERIMENT)
bench-coordinators: build-lab ## the proxy against coordinator-only nodes
	$(EXPERIMENT)
bench-speculation: build-lab ## policies of speculative retry, one node slow and none
	$(EXPERIMENT)
bench-sizing: build-lab ## which configuration holds p95 below 5 ms
	$(EXPERIMENT)
bench-replication: build-lab ## RF 1 to 3 with one node down
	$(EXPERIMENT)
bench-vnodes: build-lab ## ownership and sub-queries by tokens, on real nodes
	$(EXPERIMENT)
bench-node-local: build-lab ## NODE_LOCAL against LOCAL_ONE
	$(EXPERIMENT)
bench-nodes: build-lab ## settings of nodes and tables, a cluster for each
	$(EXPERIMENT)
bench-quorum: build-lab ## LOCAL_QUORUM through coordinators and through replicas
	$(EXPERIMENT)

.PHONY: bench-builds
bench-builds: build-lab ## CPU of this proxy against that of another binary (AGAINST=/path/qosproxy)
	$(EXPERIMENT) --against '$(AGAINST)'

# Simulations in virtual time: planner, executor and hedging as shipped, servers
# that are not there.
SIMULATE = cd $(LAB) && QOSPROXY_LONG=1 QOSPROXY_REPORTS='$(abspath $(REPORTS))' $(GO) test -count=1 -timeout 2h -v ./simulate -run

.PHONY: bench-tail
bench-tail: ## simulate The Tail at Scale, nodes that pause and limp, and sizes of groups (some minutes)
	$(SIMULATE) 'TestTailAtScale|TestPausesAndLimpingNodes|TestGroupSizes'

.PHONY: bench-rings
bench-rings: ## simulate rings of 3 to 100 nodes by num_tokens, token allocation and racks
	$(SIMULATE) TestVnodesAndRacks

.PHONY: lint
lint: $(TOOLS)/golangci-lint $(TOOLS)/actionlint check-proto ## linters, formatting, go.mod, workflows and generated code
	$(TOOLS)/golangci-lint run
	cd $(LAB) && ../../$(TOOLS)/golangci-lint run
	for module in $(CLIENT); do (cd $$module && '$(abspath $(TOOLS))/golangci-lint' run && $(GO) mod tidy -diff) || exit 1; done
	$(TOOLS)/actionlint -shellcheck= -pyflakes=
	$(GO) mod tidy -diff
	cd $(LAB) && $(GO) mod tidy -diff
	cd deploy/verify && $(GO) mod tidy -diff
	$(GO) vet ./...
	cd $(LAB) && $(GO) vet -tags '$(LAB_TAGS)' ./...

# What computes, for a neighbour that waits.
.PHONY: check-sources
check-sources:
	nice -n 19 $(MAKE) lint
	nice -n 19 $(MAKE) audit $(CHECKS)

.PHONY: audit
audit: $(TOOLS)/govulncheck ## modules as they were published, known vulnerabilities, a build that repeats
	$(GO) mod verify
	cd $(LAB) && $(GO) mod verify
	for module in $(CLIENT); do (cd $$module && $(GO) mod verify) || exit 1; done
	sh internal/tools/vulncheck.sh $(TOOLS)/govulncheck
	cd $(LAB) && sh ../tools/vulncheck.sh '$(abspath $(TOOLS))/govulncheck'
	@GO='$(GO)' sh internal/tools/reproducible.sh

.PHONY: cross
cross: ## build for every system that a release is for
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
	  echo "$$target"; export GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0; \
	  $(GO) build -o /dev/null ./cmd/qosproxy && (cd $(LAB) && $(GO) build -o /dev/null ./cmd/qoslab) || exit 1; done

# The bill of materials of a binary; a release writes one for each.
BINARY ?= $(BIN)/qosproxy
SBOM   ?= dist/qosproxy.cdx.json

.PHONY: sbom
sbom: ## write the CycloneDX bill of materials of BINARY to SBOM
	cd internal/tools && $(GO) run ./sbom -version '$(VERSION)' -out '$(abspath $(SBOM))' '$(abspath $(BINARY))'

.PHONY: proto
proto: $(TOOLS)/buf ## generate the Go code of api/
	cd api && ../$(TOOLS)/buf lint && ../$(TOOLS)/buf generate

.PHONY: proto-python
proto-python: ## generate the Python code of api/ (PYTHON has the packages of api/python/requirements.txt)
	sh api/python/generate.sh '$(or $(PYTHON),python3)'

.PHONY: proto-released
proto-released: $(TOOLS)/buf ## at a release: write what later changes of api/ must be compatible with
	cd api && ../$(TOOLS)/buf build --exclude-source-info -o released.binpb

.PHONY: check-proto
check-proto: $(TOOLS)/buf ## fail when generated code is stale or api/ breaks clients of the last release
	cd api && ../$(TOOLS)/buf breaking --against released.binpb
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cd api && ../$(TOOLS)/buf lint && ../$(TOOLS)/buf generate -o "$$tmp" && \
	for f in qosproxy/v1/*.pb.go; do cmp "$$f" "$$tmp/$$f" || { echo "api/$$f is stale: run make proto and commit what it writes" >&2; exit 1; }; done

$(TOOLS)/golangci-lint: internal/tools/go.mod
	cd internal/tools && $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(TOOLS)/benchstat: internal/tools/go.mod
	cd internal/tools && $(GO) build -o ../../$@ golang.org/x/perf/cmd/benchstat

$(TOOLS)/h2spec: internal/tools/go.mod internal/tools/h2spec/main.go
	cd internal/tools && $(GO) build -o ../../$@ ./h2spec

$(TOOLS)/grpcurl: internal/tools/go.mod
	cd internal/tools && $(GO) build -o ../../$@ github.com/fullstorydev/grpcurl/cmd/grpcurl

# By version and not by internal/tools/go.mod: the two need modules that the other
# tools have in versions they do not build with.
$(TOOLS)/govulncheck:
	GOBIN='$(abspath $(TOOLS))' $(GO) install golang.org/x/vuln/cmd/govulncheck@v1.8.0

$(TOOLS)/actionlint:
	GOBIN='$(abspath $(TOOLS))' $(GO) install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

$(TOOLS)/buf: internal/tools/go.mod
	cd internal/tools && $(GO) build -o ../../$@ github.com/bufbuild/buf/cmd/buf

.PHONY: image
image: ## build the container image with docker (IMAGE=registry.example.com/team/qosproxy:0.1.0)
	docker build --build-arg VERSION='$(VERSION)' --build-arg REVISION="$$(git rev-parse HEAD)" -t '$(IMAGE)' .

.PHONY: image-check
image-check: ## build the image with buildah and check it (as root; no docker, no registry)
	sh deploy/image/check.sh

.PHONY: kubernetes-check
kubernetes-check: $(TOOLS)/kubernetes/kube-apiserver $(TOOLS)/kubernetes/etcd ## check the manifests and charts with a real kube-apiserver, which it builds (some minutes)
	cd deploy/verify && KUBEBUILDER_ASSETS='$(abspath $(TOOLS))/kubernetes' $(GO) test -count=1 -run APIServer -v .

$(TOOLS)/kubernetes/kube-apiserver: deploy/verify/apiserver/go.mod
	cd deploy/verify/apiserver && CGO_ENABLED=0 $(GO) build -o ../../../$@ k8s.io/kubernetes/cmd/kube-apiserver

$(TOOLS)/kubernetes/etcd: deploy/verify/apiserver/go.mod
	cd deploy/verify/apiserver && CGO_ENABLED=0 $(GO) build -o ../../../$@ go.etcd.io/etcd/server/v3

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
