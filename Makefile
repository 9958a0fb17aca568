# Needs Go, git and make; the race detector also needs gcc. "make run" starts Sluice, "make check" is
# the quick test before a commit, ".ci/run" checks a change, "make nightly" has the checks that take hours.

# The file VERSION is the only source of the version; the commit is reported beside it.
VERSION := $(shell cat VERSION)
COMMIT  := $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/sluice-metrics/sluice.commit=$(COMMIT)

# The binaries are static and hold no path of this machine. Tests compile with the same settings, so
# every package is compiled once.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath -buildvcs=false

PLATFORMS         := linux/amd64 linux/arm64
RELEASE_PLATFORMS := $(PLATFORMS) darwin/amd64 darwin/arm64
ifndef SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
endif
RELEASE_URL       ?= https://github.com/sluice-metrics/sluice/releases/download/v$(VERSION)

# For what compiles much and runs no test. A third of a compiler's time is garbage collection otherwise; one takes up
# to 1 GiB.
COMPILE := GOGC=400 GOMEMLIMIT=1GiB

# The command that runs tests. .ci/run sets its own, which keeps the results.
GOTEST ?= go test

# How long each fuzz target runs.
FUZZTIME ?= 10s

# Packages with shared memory: their tests run under the race detector where there is a C compiler.
SHARED := ./adapter/... ./aggregate/... ./internal/connlimit ./internal/operations ./internal/ratelog ./receiver \
  ./receiver/credential ./receiver/group ./receiver/identity ./receiver/ledger ./receiver/pending ./receiver/push/... \
  ./receiver/relay ./receiver/scrape ./replica/... ./store/...

.PHONY: build run check test unit compile long binary prepare loadtest e2e keda torture simulate race guard bench figures bench-plot vet lint \
  staticcheck fuzz stress nightly lines tools metricsserver chart image release clean

build:
	$(COMPILE) go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sluice ./cmd/kubectl-sluice ./cmd/sluice-loadtest

run: build
	./bin/sluice serve --standalone --data-dir ./data

# The changed packages and their importers, compared with the merge base of main: format, vet,
# staticcheck, short tests.
check:
	.ci/check

test: vet unit binary

# Packages with shared memory are tested under the race detector, without their long tests; the others without
# it. A loaded machine may take many times as long as an idle one, so timeouts only end what hangs. The load
# test's own tests measure a server for two minutes; "make loadtest" runs those. A process under the race
# detector sleeps a second at its end; the store starts many.
RACE = CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GOTEST) -race
unit compile: shared = $(shell go list $(SHARED))
unit: compile
	$(GOTEST) -timeout 20m $(filter-out $(shared) %/loadtest,$(shell go list ./...))
	$(GOTEST) -short -timeout 20m ./loadtest
	$(if $(shell command -v gcc),$(RACE) -short,$(GOTEST)) -timeout 40m $(shared)

# Compiles the packages and their tests, which "go test" then links.
compile:
	$(COMPILE) go list -test -deps -export ./... >/dev/null
	$(if $(shell command -v gcc),$(COMPILE) CGO_ENABLED=1 go list -race -test -deps -export $(shared) >/dev/null)

# The long tests of packages with shared memory, which the race detector makes too slow: without it.
long:
	$(GOTEST) -timeout 20m ./adapter ./adapter/cluster ./aggregate ./adapter/keda ./receiver/push ./replica ./store/...

loadtest:
	$(GOTEST) -count=1 -timeout 10m ./loadtest

# The end-to-end tests run the binary that "make build" made. -count=1: Go does not see that the
# binary has changed.
E2E = cd e2e && SLUICE_BINARY='$(CURDIR)/bin/sluice' $(GOTEST) -count=1

# The binary, with real clients and across restarts.
binary: build
	$(E2E) -timeout 20m ./server ./clients ./console ./restart

# Builds etcd, kube-apiserver and kube-controller-manager, and keeps them in the user's cache folder (or
# SLUICE_E2E_CACHE). KUBERNETES=1.36.3 takes another version of Kubernetes than the default
# (e2e/binaries/kubernetes.go).
prepare:
	cd e2e && go run ./prepare

# The binary in a real control plane. The tests mostly wait, so they run side by side. TORTURE=long make e2e
# watches faults of replicas for five minutes each.
e2e: build prepare
	$(E2E) -timeout $(if $(filter long,$(TORTURE)),90m,40m) -parallel 8 ./binaries ./child ./controlplane ./loopback ./replicas ./cluster

# KEDA's operator and adapter in a control plane. The first run builds them too, in 13 minutes of a
# processor, into the same cache; KEDA=cached skips the tests instead.
keda: build prepare
	cd e2e && go run ./prepare -keda$(if $(filter cached,$(KEDA)), -cached)
	$(E2E) -timeout 15m -parallel 8 ./keda

# The binary under the faults of docs/reliability.md: three minutes on an idle machine.
# TORTURE=long make torture runs an hour. Tests that need loop devices are skipped without root.
torture: build
	$(E2E) -v -timeout $(if $(filter long,$(TORTURE)),6h,15m) ./torture

# Replicas over a fabric with faults, by seed, on all processors: a thousand seeds take a minute of a
# processor. A failure names its seed and the command that repeats it. GOGC: simulated tables are short-lived.
SEEDS ?= 10000
FIRST_SEED ?= 1
simulate:
	GOGC=400 $(GOTEST) -count=1 -timeout 120m ./replica -run '^TestSimulation' -seeds $(SEEDS) -first-seed $(FIRST_SEED)

# Every package under the race detector.
race:
	$(RACE) -timeout 60m ./...

# Fails if a line costs twice its recorded cost, in multiples of finding the line's end, or allocates.
guard:
	SLUICE_GUARD=1 go test -count=1 -v -run '^(TestGuard|TestHotPathDoesNotAllocate)$$' ./cmd/sluice

# The cost of a line in two minutes, one short run per scenario.
BENCH ?= tagged-10k plain-10k timers-10k single-10k tagged-750k mixed-750k hot-key client churn
bench: build
	./bin/sluice-loadtest --short $(BENCH)

# The figures of docs/performance.md, on an idle machine: tables and pictures in bin/figures. Every
# scenario of lines runs at everyday rates and flat out, beside the servers of PEERS that are in $PATH;
# then the other scenarios (disk-stall-30s needs root). A run takes about an hour.
# A scenario or another server that fails is missing in the tables, and stops no other ("Error ignored").
RUNS  ?= 3
RATES ?= 20000,100000,400000,max
PEERS ?= loadtest/peers.yaml
OTHERS = churn push-5k visible api-1k-pods api-150k-pods restart-750k idle persistence replicas-2 replica-join disk-stall-30s largest-cluster keda agents
figures: build
	@mkdir -p bin/figures
	-./bin/sluice-loadtest all --runs $(RUNS) --rate $(RATES) --peers $(PEERS) -o json > bin/figures/lines.json
	-./bin/sluice-loadtest $(OTHERS) --runs $(RUNS) -o json > bin/figures/others.json
	$(MAKE) bench-plot REPORTS='bin/figures/lines.json bin/figures/others.json' PLOT=bin/figures

# Tables and pictures of reports of "sluice-loadtest -o json": make bench-plot REPORTS='a.json b.json'
PLOT ?= bin/plot
bench-plot:
	cd tools && go run ./loadplot -out '$(abspath $(PLOT))' $(abspath $(REPORTS))

vet:
	@unformatted=$$(gofmt -l .); \
	  if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(COMPILE) go vet ./...
	cd e2e && $(COMPILE) go vet ./...
	cd tools && $(COMPILE) go vet ./...

staticcheck:
	$(COMPILE) go tool -modfile=tools/go.mod staticcheck ./...
	cd e2e && $(COMPILE) go tool -modfile=../tools/go.mod staticcheck ./...
	cd tools && $(COMPILE) go tool staticcheck ./...

lint: vet staticcheck

# Every fuzz target, two at a time.
fuzz:
	.ci/fuzz $(FUZZTIME)

# Tests as on a machine that has no time for them: each package COUNT times, beside processes that take 90 % of
# every processor, stopped for up to three seconds again and again, and with goroutines in another order. It prints a table.
PACKAGES ?= ./...
COUNT ?= 20
stress:
	cd tools && go run ./stress -count $(COUNT) -folder .. $(PACKAGES)

# The checks that take hours: each with its seconds in a table at the end.
nightly:
	.ci/nightly

# Lines of Go by room, as ARCHITECTURE.md shows them.
lines:
	@.ci/lines

# What pods and nodes use, compared with metrics-server number by number.
metricsserver:
	cd e2e/metricsserver && $(GOTEST) .

# The tests of the module tools, but those of the chart and its dashboard.
tools:
	cd tools && $(GOTEST) ./image ./loadplot ./notices ./release ./sbom

# Tests the chart and its dashboard, and packages it. The first run builds Helm. -count=1: Go does not see the files
# that are read outside of the module.
chart:
	cd tools && $(GOTEST) -count=1 -timeout 20m ./chart ./dashboard
	$(package_chart)

define package_chart
mkdir -p bin/chart
cd tools && go tool helm package ../charts/sluice --version '$(VERSION)' --app-version '$(VERSION)' --destination ../bin/chart
endef

# The binaries per platform, and the licence texts of everything that they link.
bin/platform/%/sluice: FORCE
	$(COMPILE) GOOS=$(*D) GOARCH=$(*F) go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/sluice

bin/platform/%/kubectl-sluice: FORCE
	$(COMPILE) GOOS=$(*D) GOARCH=$(*F) go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/kubectl-sluice

bin/THIRD_PARTY_LICENSES: FORCE
	cd tools && go run ./notices -source .. -out ../$@ $(RELEASE_PLATFORMS)

.PHONY: FORCE
FORCE:

binaries = $(foreach platform,$(1),$(platform)=../bin/platform/$(platform)/sluice)

# bin/image/sluice-VERSION.tar: an OCI layout, also for "docker load". The same commit makes the same
# bytes: every time in the image is the commit's.
image: $(PLATFORMS:%=bin/platform/%/sluice) bin/THIRD_PARTY_LICENSES
	cd tools && go run ./image -version '$(VERSION)' -commit '$(COMMIT)' -created $(SOURCE_DATE_EPOCH) \
	  -document ../LICENSE -document ../bin/THIRD_PARTY_LICENSES -out '../bin/image/sluice-$(VERSION).tar' \
	  $(call binaries,$(PLATFORMS))
	cd tools && go test -count=1 ./image -image '../../bin/image/sluice-$(VERSION).tar'

# bin/release: archives, image, chart, SPDX lists, licence texts, Homebrew formula, krew manifest and
# checksums. The same commit makes the same bytes. The formula and the manifest download from RELEASE_URL.
release: image $(RELEASE_PLATFORMS:%=bin/platform/%/sluice) $(RELEASE_PLATFORMS:%=bin/platform/%/kubectl-sluice) bin/THIRD_PARTY_LICENSES
	rm -rf bin/release
	$(package_chart)
	cd tools && go run ./release -version '$(VERSION)' -commit '$(COMMIT)' -created $(SOURCE_DATE_EPOCH) -url '$(RELEASE_URL)' \
	  -chart '../bin/chart/sluice-$(VERSION).tgz' -image '../bin/image/sluice-$(VERSION).tar' \
	  -license ../LICENSE -notices ../bin/THIRD_PARTY_LICENSES -out ../bin/release \
	  $(foreach platform,$(RELEASE_PLATFORMS),$(foreach name,sluice kubectl-sluice,$(platform)/$(name)=../bin/platform/$(platform)/$(name)))
	cd tools && go test -count=1 ./release -dir '$(CURDIR)/bin/release'
	@ls -l bin/release

clean:
	rm -rf bin
