package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/parser"
)

// The week that the dashboard shows in tests, as Grafana asks for it: a graph is some 1,000 pixels
// wide, so that a point is ten minutes, and $__rate_interval is a step and a scrape.
const (
	week         = 7 * 24 * time.Hour
	every        = 5 * time.Minute
	step10m      = 10 * time.Minute
	rateInterval = "10m30s"
)

var weekBegins = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// A prometheus is a real one that has a week of series.
type prometheus struct{ address string }

// withAWeek runs Debian's Prometheus with a week of all series that the queries name. The test is
// skipped where there is none.
func withAWeek(t *testing.T, queries []string) prometheus {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("skipped: prometheus is not installed")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	must(t, os.WriteFile(config, nil, 0o600))
	cmd := exec.Command(binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--storage.tsdb.retention.time", "100y", "--web.listen-address", "127.0.0.1:0", "--web.enable-remote-write-receiver")
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := prometheus{listening(t, log)}
	p.write(t, seriesOf(t, queries))
	return p
}

// listening is the address that a log names once the API answers.
func listening(t *testing.T, log io.Reader) string {
	t.Helper()
	address, ready, said := "", false, new(strings.Builder)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if found := regexp.MustCompile(`msg="Listening on" address=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
		}
		ready = ready || strings.Contains(lines.Text(), "Server is ready to receive web requests")
		if ready && address != "" { // it says both in any order
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return address
		}
	}
	t.Fatalf("prometheus ended:\n%s", said)
	return ""
}

// write sends the whole week, the oldest samples first.
func (p prometheus) write(t *testing.T, series []map[string]string) {
	t.Helper()
	for begin := time.Duration(0); begin < week; begin += 12 * every {
		request := &prompb.WriteRequest{}
		for _, names := range series {
			sent := prompb.TimeSeries{Labels: prompb.FromLabels(labels.FromMap(names), nil)}
			for at := begin; at < begin+12*every; at += every {
				sent.Samples = append(sent.Samples, prompb.Sample{
					Timestamp: weekBegins.Add(at).UnixMilli(), Value: valueOf(names, at),
				})
			}
			request.Timeseries = append(request.Timeseries, sent)
		}
		text, err := request.Marshal()
		must(t, err)
		response, err := http.Post("http://"+p.address+"/api/v1/write", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, text)))
		must(t, err)
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			t.Fatalf("remote write: %s: %s", response.Status, answer)
		}
	}
}

// ask decodes the data of an answer.
func (p prometheus) ask(t *testing.T, path string, parameters url.Values, into any) {
	t.Helper()
	response, err := http.Get("http://" + p.address + path + "?" + parameters.Encode())
	must(t, err)
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %v %s", path, parameters, err, answer.Error)
	}
}

// A line is one series of an answer, drawn; NaN where there is no point.
type line struct {
	labels map[string]string
	values []float64
}

// inTheWeek asks for the points of the week.
func (p prometheus) inTheWeek(t *testing.T, expr string) []line {
	t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]json.RawMessage
		}
	}
	p.ask(t, "/api/v1/query_range", url.Values{
		"query": {inGrafana(expr)}, "step": {"600"},
		"start": {weekBegins.Format(time.RFC3339)}, "end": {weekBegins.Add(week - every).Format(time.RFC3339)},
	}, &data)
	var lines []line
	for _, result := range data.Result {
		drawn := line{result.Metric, slices.Repeat([]float64{math.NaN()}, int(week/step10m))}
		for _, point := range result.Values {
			var at float64
			var text string
			if json.Unmarshal(point[0], &at) != nil || json.Unmarshal(point[1], &text) != nil {
				t.Fatalf("%s: %s", expr, point)
			}
			value := math.NaN()
			if text != "NaN" {
				if err := json.Unmarshal([]byte(text), &value); err != nil {
					t.Fatalf("%s: %s", expr, text)
				}
			}
			drawn.values[int(at-float64(weekBegins.Unix()))/600] = value
		}
		lines = append(lines, drawn)
	}
	return lines
}

// inGrafana is an expression with Grafana's variables replaced: all clusters, all jobs.
func inGrafana(expr string) string {
	return strings.NewReplacer("$__rate_interval", rateInterval, "$cluster", ".*", "$job", ".*").Replace(expr)
}

// examples are values of labels; other labels have the two values one and two.
var examples = map[string][]string{
	"receiver": {"statsd_udp", "http"}, "reason": {"malformed", "limit"}, "le": {"0.005", "0.05", "0.5", "+Inf"},
	"exported_namespace": {"shop", "mail"}, "namespace": {"sluice"}, "hpa": {"checkout", "cart"}, "version": {"v1.4.0"},
	"metric": {"jobs:max:10s"}, "code": {"200", "429"}, "method": {"POST"}, "part": {"series", "names"},
	"cluster": {"production"}, "job": {"sluice"}, "instance": {"10.0.0.1:8080", "10.0.0.2:8080"},
}

// seriesOf are the series that queries name, with the labels that they group and match by, of two
// processes. What a metric calls namespace a scrape calls exported_namespace.
func seriesOf(t *testing.T, queries []string) (series []map[string]string) {
	t.Helper()
	needed := map[string]map[string][]string{}
	for _, query := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(inGrafana(query))
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var grouped []string
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if sum, ok := node.(*parser.AggregateExpr); ok && !sum.Without {
				grouped = append(grouped, sum.Grouping...)
			}
			return nil
		})
		if strings.Contains(query, "exported_namespace") {
			grouped = append(grouped, "exported_namespace")
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			values := needed[selector.Name]
			if values == nil {
				values = map[string][]string{"cluster": nil, "job": nil, "instance": nil}
				needed[selector.Name] = values
			}
			for _, label := range grouped {
				values[label] = nil
			}
			for _, matcher := range selector.LabelMatchers {
				if matcher.Type == labels.MatchEqual && matcher.Name != "__name__" {
					values[matcher.Name] = append(values[matcher.Name], matcher.Value)
				}
			}
			return nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		series = append(series, combined(name, needed[name])...)
	}
	return series
}

// combined are the series of a metric with each combination of its labels' values.
func combined(name string, needed map[string][]string) []map[string]string {
	series := []map[string]string{{"__name__": name}}
	for _, label := range slices.Sorted(maps.Keys(needed)) {
		values := needed[label]
		if values == nil {
			values = examples[label]
		}
		if label == "pod" {
			continue // follows from the instance
		}
		if values == nil {
			values = []string{"one", "two"}
		}
		var longer []map[string]string
		for _, names := range series {
			for _, value := range values {
				names := maps.Clone(names)
				names[label] = value
				if label == "instance" {
					names["pod"] = map[string]string{"10.0.0.1:8080": "sluice-0", "10.0.0.2:8080": "sluice-1"}[value]
				}
				longer = append(longer, names)
			}
		}
		series = longer
	}
	return series
}

// valueOf is a sample of a series: days and nights, of each series a little otherwise.
func valueOf(names map[string]string, at time.Duration) float64 {
	hash := fnv.New32a()
	for _, label := range slices.Sorted(maps.Keys(names)) {
		if label != "le" { // so that the buckets of a histogram hold each other
			hash.Write([]byte(label + names[label]))
		}
	}
	size, phase := 1+float64(hash.Sum32()%100)/25, float64(hash.Sum32()%97)/97
	days := at.Hours()/24 + phase/4
	wave := 1.5 + math.Sin(2*math.Pi*days)
	name := names["__name__"]
	switch {
	case name == "sluice_build_info", name == "sluice_store_persisting", name == "sluice_cluster_synced":
		return 1
	case name == "sluice_series_limit":
		return 40
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return float64(weekBegins.Add(30 * 24 * time.Hour).Unix())
	case slices.ContainsFunc(rows, func(r row) bool { return r.hasState(name) }), name == "sluice_agent_connected":
		if int(days*6)%7 == int(hash.Sum32()%7) { // four hours now and then
			return 1
		}
		return 0
	case strings.HasSuffix(name, "_bucket"):
		share := map[string]float64{"0.005": 0.6, "0.05": 0.9, "0.5": 0.99, "+Inf": 1}[names["le"]]
		return math.Floor(share * growth(size, days))
	case regexp.MustCompile(`_(total|sum|count)$`).MatchString(name):
		if names["reason"] != "" {
			size /= 1000
		}
		return growth(size, days)
	case strings.HasSuffix(name, "_bytes"):
		return size * wave * 1e7
	}
	return size * wave
}

// growth is the total of a rate that is a wave with the period of a day.
func growth(size, days float64) float64 {
	return size * 86400 * (1.5*days + (1-math.Cos(2*math.Pi*days))/(2*math.Pi))
}

// hasState says whether a panel shows a metric as states.
func (r row) hasState(metric string) bool {
	return slices.ContainsFunc(r.panels, func(p panel) bool {
		return p.look == states && slices.ContainsFunc(p.queries, func(q query) bool { return strings.Contains(q.expr, metric) })
	})
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
