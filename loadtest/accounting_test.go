package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// balanced is 10 warm-up lines and 100 datagrams of 24 lines, 2 of them dropped.
func balanced() accounting {
	return accounting{
		warmUp: packing{10: 1}, load: packing{24: 100},
		received: 10 + 98*24, applied: 10 + 98*24, serverDrops: 2, kernelDrops: 2,
		sums: []sum{{"counters", 10 + 98*24, 10 + 98*24}, {"gauges", 7, 7}},
	}
}

func TestAccounting(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*accounting)
		wrong  string // empty: they balance
	}{
		"drops of datagrams of a fixed size": {func(*accounting) {}, ""},
		"nothing dropped": {func(b *accounting) {
			b.received, b.applied, b.serverDrops, b.kernelDrops = 2410, 2410, 0, 0
		}, ""},
		"drops of datagrams of several sizes": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54} // 2296 lines, of which 2 datagrams lose 40 to 48
			b.received, b.applied = 10+2296-44, 10+2296-44
		}, ""},
		"a line lost":            {func(b *accounting) { b.received--; b.applied-- }, "1 are unaccounted for"},
		"a line counted twice":   {func(b *accounting) { b.received++; b.applied++ }, "-1 are unaccounted for"},
		"a datagram lost":        {func(b *accounting) { b.received -= 24; b.applied -= 24 }, "24 are unaccounted for"},
		"received, not applied":  {func(b *accounting) { b.applied-- }, "but applied 2361 and rejected 0"},
		"rejected":               {func(b *accounting) { b.applied--; b.rejected = 1 }, "only valid ones"},
		"a series lost a line":   {func(b *accounting) { b.sums[0].got-- }, "the sum of all counters is 2361; must be 2362"},
		"a series has one more":  {func(b *accounting) { b.sums[1].got++ }, "the sum of all gauges is 8; must be 7"},
		"drops hidden by server": {func(b *accounting) { b.serverDrops = 1 }, "the server reports 1 dropped datagrams, the kernel 2"},
		"nothing received":       {func(b *accounting) { *b = accounting{load: packing{24: 1}, kernelDrops: 1, serverDrops: 1} }, "received none"},
		"several sizes, one line too few": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54}
			b.received, b.applied = 10+2296-49, 10+2296-49
		}, "49 missing do not fit"},
		"several sizes, one line too many": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54}
			b.received, b.applied = 10+2296-39, 10+2296-39
		}, "39 missing do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			b := balanced()
			c.change(&b)
			err := b.check()
			if c.wrong == "" && err != nil {
				t.Errorf("%v: want no fault", err)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("fault %v: want %q", err, c.wrong)
			}
		})
	}
}

func TestSumOf(t *testing.T) {
	b := accounting{warmUp: packing{10: 4}, load: packing{24: 100}, applied: 40 + 98*24}
	for _, c := range []struct {
		of   part
		want int64
	}{
		{part{size: 40}, 40 + 98*24}, {part{size: 30, share: 12}, 30 + 98*12}, {part{size: 10, share: 1, worth: 55}, 55},
	} {
		if got := b.sumOf(c.of, 24); got != c.want {
			t.Errorf("%+v has to add up to %d: want %d", c.of, got, c.want)
		}
	}
}

func TestFloorAccounting(t *testing.T) {
	f := floorAccounting{warmUp: packing{10: 1}, load: packing{24: 100}, received: 10 + 98*24, kernelDrops: 2}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	f.received++
	if err := f.check(); err == nil || !strings.HasPrefix(err.Error(), "floor: ") {
		t.Errorf("fault %v: want one of the floor", err)
	}
}

func TestLost(t *testing.T) {
	p := packing{24: 2, 10: 1, 3: 1}
	for _, c := range []struct{ dropped, least, most int64 }{
		{0, 0, 0}, {1, 3, 24}, {2, 13, 48}, {3, 37, 58}, {4, 61, 61},
	} {
		if least, most := p.lost(c.dropped); least != c.least || most != c.most {
			t.Errorf("%d dropped: %d to %d lines lost, want %d to %d", c.dropped, least, most, c.least, c.most)
		}
	}
}

const scraped = `# HELP sluice_kernel_drops_total Datagrams.
# TYPE sluice_kernel_drops_total counter
sluice_kernel_drops_total{receiver="http"} 0
sluice_kernel_drops_total{receiver="statsd_udp"} 3
# TYPE sluice_samples_applied_total counter
sluice_samples_applied_total{receiver="http"} 77
sluice_samples_applied_total{receiver="statsd_udp"} 1.2345678e+07
# TYPE sluice_samples_received_total counter
sluice_samples_received_total{receiver="statsd_udp"} 12345690
# TYPE sluice_samples_rejected_total counter
sluice_samples_rejected_total{reason="limit",receiver="http"} 5
sluice_samples_rejected_total{reason="limit",receiver="statsd_udp"} 4
sluice_samples_rejected_total{reason="malformed",receiver="statsd_udp"} 8
# TYPE sluice_series gauge
sluice_series 10000
`

func TestParseLedger(t *testing.T) {
	got, err := parseLedger(strings.NewReader(scraped))
	if want := (ledger{received: 12345690, applied: 12345678, rejected: 12, drops: 3}); err != nil || got != want {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"another receiver": strings.ReplaceAll(scraped, "statsd_udp", "statsd_tcp"),
		"no drops":         strings.ReplaceAll(scraped, "sluice_kernel_drops_total", "sluice_drops_total"),
		"no exposition":    "<html>",
	} {
		if got, err := parseLedger(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %+v, want an error", name, got)
		}
	}
}

func TestReadGCShare(t *testing.T) {
	class := func(name, value string) string {
		name = "go_cpu_classes_" + name + "_cpu_seconds_total"
		return "# TYPE " + name + " counter\n" + name + " " + value + "\n"
	}
	for text, want := range map[string]float64{
		class("gc_total", "0.5") + class("total", "20") + class("idle", "12"): 0.0625,
		class("gc_total", "0") + class("total", "0") + class("idle", "0"):     0,
		class("total", "20") + class("idle", "12"):                            -1,
		class("gc_total", "0.5") + class("idle", "12"):                        -1,
		class("gc_total", "0.5") + class("total", "20"):                       -1,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		got, err := readGCShare(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"))
		server.Close()
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v: want %v (below 0: an error)", text, got, err, want)
		}
	}
}

func TestParseValues(t *testing.T) {
	got, err := parseValues([]byte(`{"items":[{"metric":"a","value":9007199254740993},{"value":2}]}`))
	if err != nil || !slices.Equal(got, []int64{9007199254740993, 2}) {
		t.Errorf("%v, %v: want both, to the last digit", got, err)
	}
	for _, body := range []string{`{"items":[{"value":1.5}]}`, `{"items":[{}]}`, `[]`, ``} {
		if got, err := parseValues([]byte(body)); err == nil {
			t.Errorf("%s: read as %v, want an error", body, got)
		}
	}
}

func TestWholeQuantity(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "12": 12, "-3": -3, "3k": 3_000, "2M": 2_000_000, "1E": 1e18} {
		if got, err := wholeQuantity(text); err != nil || got != want {
			t.Errorf("%q is read as %d, %v: want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "1500m", "1.5", "3Ki", "k3"} {
		if got, err := wholeQuantity(text); err == nil {
			t.Errorf("%q is read as %d: want an error", text, got)
		}
	}
}

func TestSumJSON(t *testing.T) {
	items, sum, err := sumJSON([]byte(`{"items":[{"value":"2"},{"value":"1k"}]}`))
	if items != 2 || sum != 1002 || err != nil {
		t.Errorf("%d items, sum %d, %v", items, sum, err)
	}
}

// message makes a protobuf message of one field that holds bytes.
func message(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func TestSumProtobuf(t *testing.T) {
	item := func(value string) []byte {
		skipped := protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 60) // windowSeconds
		return message(listItems, append(skipped, message(itemValue, message(quantityString, []byte(value)))...))
	}
	list := append(append(message(1, []byte("metadata")), item("2")...), item("3k")...)
	body := append([]byte(protobufMagic), append(message(1, []byte("typeMeta")), message(unknownRaw, list)...)...)
	if items, sum, err := sumProtobuf(body); items != 2 || sum != 3002 || err != nil {
		t.Errorf("%d items, sum %d, %v: want 2 and 3002", items, sum, err)
	}
	for n := range body[:len(body)-1] {
		if items, _, err := sumProtobuf(body[:n]); err == nil && items == 2 {
			t.Fatalf("the first %d bytes are read as all of it", n)
		}
	}
}
