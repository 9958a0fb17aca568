# make run starts Sluice on this machine, make test tests it: both need Go, gcc, git and make only.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --verify --quiet HEAD || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# How long each fuzz target runs under "make fuzz".
FUZZTIME ?= 10s

# Packages whose goroutines share memory: what "make race" is about.
RACE := ./aggregate/... ./connlimit ./ratelog ./identity/... ./receiver/... ./store/... ./adapter/... ./operations/... ./workload ./cmd/...

.PHONY: build run test unit binary loadtest e2e torture race guard bench figures bench-plot lint fuzz chart image clean

build:
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/sluice ./cmd/sluice

run: build
	./bin/sluice serve --standalone --data-dir ./data

test: unit binary

# The load test's own tests measure a server for two minutes; here they run without one, and whole under "make loadtest".
unit:
	go test -timeout 5m $$(go list ./... | grep -v '/loadtest$$')
	go test -short ./loadtest

loadtest:
	go test -count=1 -timeout 10m ./loadtest

# The binary against real clients and real restarts. -count=1: Go does not see that the binary has changed.
binary:
	cd e2e && go test -count=1 -timeout 5m ./clients ./restart

# The binary in a real control plane: etcd, kube-apiserver and kube-controller-manager. The first time builds them, which takes
# some minutes and memory; they are kept in the user's cache folder (or SLUICE_E2E_CACHE).
e2e:
	cd e2e && go run ./prepare && go test -count=1 -timeout 20m ./binaries ./child ./controlplane ./cluster

# The binary under the faults of docs/reliability.md, with the figure of each: some three minutes on a machine that does
# nothing else. TORTURE=long make torture: the same more often and in larger sizes, about an hour. What needs loop devices is skipped
# where not root.
torture:
	cd e2e && go test -count=1 -v -timeout $(if $(filter long,$(TORTURE)),6h,15m) ./torture

# Short: the long tests show what they show without the detector, at a tenth of the time.
# A process with the detector sleeps a second when it ends; the store ends many.
race:
	GORACE=atexit_sleep_ms=0 go test -race -short -timeout 10m $(RACE)

# Fails where a line costs twice what it did, told as a multiple of finding its end in the same run, or allocates.
guard:
	SLUICE_GUARD=1 go test -count=1 -v -run '^(TestGuard|TestHotPathDoesNotAllocate)$$' ./cmd/sluice

# What a line costs, in two minutes: one short run each. Good figures take five long ones on a quiet machine, see
# docs/performance-method.md.
BENCH ?= tagged-10k plain-10k timers-10k single-10k tagged-750k mixed-750k hot-key client churn
bench: build
	./bin/sluice loadtest --short $(BENCH)

# The figures of docs/performance.md, five runs of every scenario: takes 45 minutes, on a machine that does nothing else.
# As root also what a disk that stands still does.
RUNS ?= 5
figures: build
	./bin/sluice loadtest all --runs $(RUNS) -o json > bin/figures.json
	cd tools && go run ./loadplot -out ../bin/figures.md ../bin/figures.json
	cd tools && go run ./loadplot -out ../bin/figures.svg ../bin/figures.json

# Draws reports of "sluice loadtest -o json", for instance: make bench-plot REPORTS='a.json b.json' PLOT=bench.png
PLOT ?= bin/bench.svg
bench-plot:
	@mkdir -p bin
	cd tools && go run ./loadplot -out '$(abspath $(PLOT))' $(abspath $(REPORTS))

lint:
	@unformatted=$$(gofmt -l .); \
	  if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	cd e2e && go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	cd e2e && go tool -modfile=../tools/go.mod staticcheck ./...
	cd tools && go vet ./... && go tool staticcheck ./...

# Each target in turn, for FUZZTIME; "go test -fuzz" takes one target of one package at a time. What fails leaves its input in a
# file and says so. Now and then Go's own end of FUZZTIME ends a target as failed, "context deadline exceeded", without any
# input (golang.org/issue/75804, mended in Go 1.27): that one is run again, and must pass.
fuzz:
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	fuzz() { go test -run '^$$' -fuzz "^$$2$$" -fuzztime $(FUZZTIME) "$$1" >"$$log" 2>&1; failed=$$?; cat "$$log"; return $$failed; }; \
	hurried() { grep -q 'context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log"; }; \
	for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "$$package $$target"; \
	    fuzz $$package $$target || { hurried && fuzz $$package $$target; } || exit 1; \
	  done; \
	done

# Tests the chart (lint, goldens, refusals) and packages it for the image of the same version. The first time builds Helm.
# -count=1: Go does not see that what Helm reads has changed, and would show the last result.
chart:
	cd tools && go test -count=1 -timeout 10m ./chart
	mkdir -p bin/chart
	cd tools && go tool helm package ../charts/sluice --app-version '$(VERSION)' --destination ../bin/chart

# What make image packs. The same commit makes the same bytes: every time in the image is the commit's.
PLATFORMS         ?= linux/amd64 linux/arm64
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# bin/image/sluice-VERSION.tar (an OCI layout, also for "docker load"), and per platform a list of what is in the binary.
image:
	@for platform in $(PLATFORMS); do \
	  CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -trimpath -buildvcs=false \
	    -ldflags '-s -w $(LDFLAGS)' -o bin/image/$$platform/sluice ./cmd/sluice || exit 1; \
	done
	cd tools && go run ./image -version '$(VERSION)' -commit '$(COMMIT)' -created $(SOURCE_DATE_EPOCH) \
	  -license ../LICENSE -out ../bin/image \
	  $(foreach platform,$(PLATFORMS),$(platform)=../bin/image/$(platform)/sluice)
	cd tools && go test -count=1 ./image -image '../../bin/image/sluice-$(VERSION).tar'

clean:
	rm -rf bin
