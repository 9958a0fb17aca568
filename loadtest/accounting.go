package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ErrUnaccounted means that some lines of a run are unaccounted for. Such a run has no figures.
var ErrUnaccounted = errors.New("some lines are unaccounted for, so there are no figures")

// accounting compares the counts of the sender, the kernel and the server over the server's whole
// life, the warm-up included. Every line is one sample.
type accounting struct {
	warmUp, load packing // counted by the sender

	received, applied, rejected int64 // counted by the server, in lines
	serverDrops                 int64 // reported by the server, in datagrams

	kernelDrops int64 // counted by the kernel at the socket, in datagrams
	sums        []sum
}

// sum compares the values of a part, read series by series, with the expected sum.
type sum struct {
	of        string
	got, want int64
}

// sumOf returns the expected sum of a part. Each datagram of the load has perDatagram lines.
func (b accounting) sumOf(p part, perDatagram int) int64 {
	switch {
	case p.worth != 0:
		return p.worth
	case p.share == 0:
		return b.applied
	}
	return int64(p.size) + int64(p.share)*(b.applied-b.warmUp.lines())/int64(perDatagram)
}

// check returns every fault. The warm-up is slow enough to lose nothing, so drops belong to the
// load.
func (b accounting) check() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	sent := b.warmUp.lines() + b.load.lines()
	least, most := b.load.lost(b.kernelDrops)
	switch missing := sent - b.received; {
	case b.received <= 0:
		wrong("the server received none of %d lines", sent)
	case least == most && missing != least:
		wrong("sent %d lines, received %d, and %d dropped datagrams had %d: %d are unaccounted for",
			sent, b.received, b.kernelDrops, least, missing-least)
	case missing < least || missing > most:
		wrong("sent %d lines, received %d, and %d dropped datagrams had %d to %d: the %d missing do not fit",
			sent, b.received, b.kernelDrops, least, most, missing)
	}
	if b.received != b.applied+b.rejected {
		wrong("received %d lines, but applied %d and rejected %d", b.received, b.applied, b.rejected)
	}
	if b.rejected != 0 {
		wrong("rejected %d lines; the scenario has only valid ones", b.rejected)
	}
	if b.serverDrops != b.kernelDrops {
		wrong("the server reports %d dropped datagrams, the kernel %d", b.serverDrops, b.kernelDrops)
	}
	for _, s := range b.sums {
		if s.got != s.want {
			wrong("the sum of all %s is %d; must be %d", s.of, s.got, s.want)
		}
	}
	return errors.Join(faults...)
}

// floorAccounting is the accounting of a floor, which counts lines only.
type floorAccounting struct {
	warmUp, load          packing
	received, kernelDrops int64
}

func (f floorAccounting) check() error {
	all := accounting{
		warmUp: f.warmUp, load: f.load, received: f.received, applied: f.received,
		kernelDrops: f.kernelDrops, serverDrops: f.kernelDrops,
	}
	if err := all.check(); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}

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
	err = readFamilies(ctx, client, opsAddress, func(f families) error {
		m, err := f.only(name)
		value = m.GetGauge().GetValue()
		return err
	})
	return value, err
}

// readGCShare returns the share of garbage collection in the CPU time of Go's scheduler. Go updates
// these times at each collection, by a clock of its own (runtime/metrics), so compare them only
// with each other.
func readGCShare(ctx context.Context, client *http.Client, opsAddress string) (share float64, err error) {
	err = readFamilies(ctx, client, opsAddress, func(f families) error {
		var seconds [3]float64
		for i, class := range []string{"gc_total", "total", "idle"} {
			m, err := f.only("go_cpu_classes_" + class + "_cpu_seconds_total")
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

// total returns the sum of the values at the given paths of the server's HTTP API.
func total(ctx context.Context, client *http.Client, httpAddress string, paths []string) (int64, error) {
	var sum int64
	for _, path := range paths {
		values, err := readValues(ctx, client, "http://"+httpAddress+path)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		for _, v := range values {
			sum += v
		}
	}
	return sum, nil
}

func readValues(ctx context.Context, client *http.Client, url string) ([]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return parseValues(body)
}

// parseValues accepts whole numbers only: a fractional count is wrong.
func parseValues(body []byte) ([]int64, error) {
	var answer struct {
		Items []struct {
			Value json.Number `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	values := make([]int64, len(answer.Items))
	for i, item := range answer.Items {
		v, err := item.Value.Int64()
		if err != nil {
			return nil, fmt.Errorf("value is %q; must be a whole number", item.Value)
		}
		values[i] = v
	}
	return values, nil
}
