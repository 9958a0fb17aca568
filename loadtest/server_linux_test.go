package loadtest

import (
	"strings"
	"testing"
)

func TestMeters(t *testing.T) {
	said, err := parseMeters(strings.NewReader(`# TYPE sluice_samples_received_total counter
sluice_samples_received_total{receiver="http"} 5
sluice_samples_received_total{receiver="statsd_udp"} 7
# TYPE sluice_samples_applied_total counter
sluice_samples_applied_total{receiver="http"} 3
# TYPE sluice_samples_rejected_total counter
sluice_samples_rejected_total{reason="name",receiver="http"} 1
sluice_samples_rejected_total{reason="value",receiver="http"} 1
# TYPE sluice_store_lag_seconds gauge
sluice_store_lag_seconds 0.25
`))
	must(t, err)
	if got, err := said.ledgerOf("http"); err != nil || got != (ledger{received: 5, applied: 3, rejected: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	if lag, err := said.sum("sluice_store_lag_seconds", nil); err != nil || lag != 0.25 {
		t.Errorf("lag %v, %v", lag, err)
	}
	if _, err := said.ledgerOf("statsd_udp"); err == nil {
		t.Error("what is not there is read as 0")
	}
}
