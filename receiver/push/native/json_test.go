package native

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// A line that is taken is JSON, and says what encoding/json says that it says.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		`{"name":"m","type":"counter","value":1}`, `{"name":"m\u00e4\n","type":"set","value":"\ud83d\ude00"}`,
		`{"name":"m","type":"gauge","value":-1.5e3,"labels":{"a":"b","c":""},"namespace":"shop","object":"pods/a","delta":true}`,
		`{"name":"m","type":"timer","value":1,"rate":0.5,"ttl":"1h","timestamp":1700000000.5}`, `{"name":`, `{"a":{}}`, `{"labels":{"a":"\`,
	} {
		f.Add([]byte(s))
	}
	limits := httpserver.DefaultConfig()
	f.Fuzz(func(t *testing.T, b []byte) {
		x := httpserver.NewRequest(limits, knows{}, nil)
		ls := &jsonLines{x: x}
		ls.line.x = x
		s, fault := ls.read(b)
		if (s == nil) == (fault == nil) {
			t.Fatalf("%q: sample %v and fault %v", b, s, fault)
		}
		if fault != nil {
			if fault == httpserver.Unworded(fault.Counted) {
				fault = ls.Words()
			}
			if fault.Message == "" || fault.Counted == metric.Applied || fault.Offset < 0 || fault.Offset > len(b) {
				t.Fatalf("%q: %+v", b, fault)
			}
			return
		}
		var want struct {
			Name   string
			Value  any
			Labels map[string]string
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q was taken: %v", b, err)
		}
		if want.Name != string(s.Name) || len(want.Labels) != len(s.Fields) {
			t.Fatalf("%q: name %q, labels %v, want %+v", b, s.Name, s.Fields, want)
		}
		for _, l := range s.Fields {
			if want.Labels[l.Key] != l.Value {
				t.Fatalf("%q: labels %v, want %v", b, s.Fields, want.Labels)
			}
		}
		if member, ok := want.Value.(string); ok != (s.Kind == metric.Set) || member != string(s.Member) {
			t.Fatalf("%q: member %q, want %v", b, s.Member, want.Value)
		}
	})
}

// Every line of a body, whatever it is, is applied or refused exactly once.
func FuzzSamples(f *testing.F) {
	f.Add([]byte("{\"name\":\"m\",\"type\":\"counter\",\"value\":1}\nx\n\n"))
	f.Add([]byte("\r\n{}\n"))
	limits := httpserver.DefaultConfig()
	f.Fuzz(func(t *testing.T, body []byte) {
		lines := 0
		for _, l := range bytes.Split(body, []byte("\n")) {
			if len(bytes.TrimSpace(l)) > 0 {
				lines++
			}
		}
		ls := &jsonLines{x: httpserver.NewRequest(limits, knows{}, nil), rest: body}
		ls.line.x = ls.x
		got := 0
		for {
			s, fault, more := ls.NextSample()
			if !more {
				break
			}
			if got++; (s == nil) == (fault == nil) {
				t.Fatalf("sample %v and fault %v", s, fault)
			}
		}
		if got != lines {
			t.Fatalf("%d samples of %d lines", got, lines)
		}
	})
}

func TestLinesReuseTheirMemory(t *testing.T) {
	limits := httpserver.DefaultConfig()
	ls := &jsonLines{x: httpserver.NewRequest(limits, knows{}, nil)}
	ls.line.x = ls.x
	line := []byte(`{"name":"jobs","type":"counter","value":1,"namespace":"shop","object":"pods/web-1","labels":{"a":"b","c":"\u00e4"}}`)
	read := func() {
		if _, f := ls.read(line); f != nil {
			t.Fatal(f)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 1 { // one: the closure over the line
		t.Errorf("%v allocations a line", n)
	}
}

// knows are Resources with pods and nodes.
type knows struct{}

func (knows) Canonical(resource string) (string, bool, error) {
	if resource == "pods" || resource == "nodes" {
		return resource, resource == "pods", nil
	}
	return "", false, metric.NotFoundf("no resource %q is known", resource)
}
