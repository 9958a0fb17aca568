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

// meters are the metric families in a server's /metrics.
type meters map[string]*dto.MetricFamily

func (s *server) meters(ctx context.Context) (meters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics: %s", resp.Status)
	}
	return parseMeters(resp.Body)
}

func parseMeters(text io.Reader) (meters, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("/metrics: %w", err)
	}
	return families, nil
}

// sum adds up the counters and gauges of a name with the given labels. It is an error if there are
// none: zeros would add up.
func (m meters) sum(name string, labels map[string]string) (float64, error) {
	found, sum := false, 0.0
	for _, one := range m[name].GetMetric() {
		if has(one, labels) {
			found = true
			sum += one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	if !found {
		return 0, fmt.Errorf("/metrics: no %s with labels %v", name, labels)
	}
	return sum, nil
}

func has(m *dto.Metric, labels map[string]string) bool {
	matching := 0
	for _, l := range m.GetLabel() {
		if want, asked := labels[l.GetName()]; asked && want == l.GetValue() {
			matching++
		}
	}
	return matching == len(labels)
}

// ledgerOf returns the server's accounting of one receiver. It leaves out drops, which only
// datagram sockets have.
func (m meters) ledgerOf(receiver string) (l ledger, err error) {
	for name, into := range map[string]*int64{
		"sluice_samples_received_total": &l.received,
		"sluice_samples_applied_total":  &l.applied,
		"sluice_samples_rejected_total": &l.rejected,
	} {
		v, err := m.sum(name, map[string]string{"receiver": receiver})
		if err != nil {
			return ledger{}, err
		}
		*into = int64(v)
	}
	return l, nil
}
