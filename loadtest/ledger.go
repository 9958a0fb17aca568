package loadtest

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ledger is the server's accounting of StatsD over UDP, from /metrics.
type ledger struct{ received, applied, rejected, drops int64 }

// receiver is the label of the measured receiver.
const receiver = "statsd_udp"

func readLedger(ctx context.Context, client *http.Client, opsAddress string) (l ledger, err error) {
	err = readMetrics(ctx, client, opsAddress, func(text io.Reader) error {
		l, err = parseLedger(text)
		return err
	})
	return l, err
}

// readGauge reads a gauge without labels.
func readGauge(ctx context.Context, client *http.Client, opsAddress, name string) (value float64, err error) {
	err = readFamilies(ctx, client, opsAddress, func(of families) error {
		m, err := of.only(name)
		value = m.GetGauge().GetValue()
		return err
	})
	return value, err
}

// readGCShare returns the share of garbage collection in the CPU time of Go's scheduler. Go updates
// these times at each collection, by a clock of its own (runtime/metrics), so compare them only
// with each other.
func readGCShare(ctx context.Context, client *http.Client, opsAddress string) (share float64, err error) {
	err = readFamilies(ctx, client, opsAddress, func(of families) error {
		var seconds [3]float64
		for i, class := range []string{"gc_total", "total", "idle"} {
			m, err := of.only("go_cpu_classes_" + class + "_cpu_seconds_total")
			if err != nil {
				return err
			}
			seconds[i] = m.GetCounter().GetValue()
		}
		if busy := seconds[1] - seconds[2]; busy > 0 { // 0: nothing was collected yet
			share = seconds[0] / busy
		}
		return nil
	})
	return share, err
}

type families map[string]*dto.MetricFamily

// only returns the family's metric; an error unless there is exactly one.
func (f families) only(name string) (*dto.Metric, error) {
	metrics := f[name].GetMetric()
	if len(metrics) != 1 {
		return nil, fmt.Errorf("/metrics has %d metrics %s; must have one", len(metrics), name)
	}
	return metrics[0], nil
}

func readFamilies(ctx context.Context, client *http.Client, opsAddress string, use func(families) error) error {
	return readMetrics(ctx, client, opsAddress, func(text io.Reader) error {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		all, err := parser.TextToMetricFamilies(text)
		if err != nil {
			return err
		}
		return use(all)
	})
}

func readMetrics(ctx context.Context, client *http.Client, opsAddress string, parse func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+opsAddress+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/metrics: %s", resp.Status)
	}
	if err := parse(resp.Body); err != nil {
		return fmt.Errorf("/metrics: %w", err)
	}
	return nil
}

// parseLedger reads the receiver's counters. A missing counter is an error: zeros would add up.
func parseLedger(text io.Reader) (ledger, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return ledger{}, err
	}
	var l ledger
	for name, into := range map[string]*int64{
		"sluice_samples_received_total": &l.received,
		"sluice_samples_applied_total":  &l.applied,
		"sluice_samples_rejected_total": &l.rejected,
		"sluice_kernel_drops_total":     &l.drops,
	} {
		found := false
		for _, m := range families[name].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "receiver" && label.GetValue() == receiver {
					found = true
					*into += int64(m.GetCounter().GetValue())
				}
			}
		}
		if !found {
			return ledger{}, fmt.Errorf("no counter %s with receiver=%q", name, receiver)
		}
	}
	return l, nil
}
