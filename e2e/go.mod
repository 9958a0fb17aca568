module github.com/sluice-metrics/sluice/e2e

go 1.26.0

require (
	github.com/DataDog/datadog-go/v5 v5.9.1
	github.com/cactus/go-statsd-client/v5 v5.1.0
)

require (
	github.com/Microsoft/go-winio v0.5.0 // indirect
	golang.org/x/sys v0.0.0-20210510120138-977fb7262007 // indirect
)
