# make run starts Sluice on this machine, make test tests it: both need Go, gcc, git and make only.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --verify --quiet HEAD || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# How long each fuzz target runs under "make fuzz".
FUZZTIME ?= 10s

# Packages whose goroutines share memory: what "make race" is about.
RACE := ./aggregate/... ./identity/... ./receiver/... ./store/... ./adapter/... ./operations/... ./cmd/...

.PHONY: build run test unit e2e race lint fuzz clean

build:
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/sluice ./cmd/sluice

run: build
	./bin/sluice serve --standalone --data-dir ./data

test: unit e2e

unit:
	go test -timeout 5m ./...

# The binary against real clients and real restarts.
e2e:
	cd e2e && go test -timeout 5m ./...

# Short: the long tests show what they show without the detector, at a tenth of the time.
race:
	go test -race -short -timeout 10m $(RACE)

lint:
	@unformatted=$$(gofmt -l .); \
	  if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	cd e2e && go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	cd e2e && go tool -modfile=../tools/go.mod staticcheck ./...

# Each target in turn, for FUZZTIME; "go test -fuzz" takes one target of one package at a time.
fuzz:
	@for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	  done; \
	done

clean:
	rm -rf bin
