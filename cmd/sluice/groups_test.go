package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/store"
)

// accepted sends a request that must succeed.
func accepted(t *testing.T, p *dataPath, method, path, body string) {
	t.Helper()
	if status, text := spoken(t, p, method, path, body); status >= 300 {
		t.Fatal(status, text)
	}
}

// spokenWith posts a body of a content type, with more headers.
func spokenWith(t *testing.T, p *dataPath, path, body, contentType string, headers ...string) (int, string) {
	t.Helper()
	return spoken(t, p, "POST", path, body, append(headers, "Content-Type", contentType)...)
}

// spoken sends a request to the push port, perhaps with headers.
func spoken(t *testing.T, p *dataPath, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	return asked(t, method, "http://"+p.push.Addr().String()+path, body, headers...)
}

// asked sends a request to any port.
func asked(t *testing.T, method, url, body string, headers ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(read)
}

// copyQuiet copies a folder at a moment in which nothing is written to it.
func copyQuiet(t *testing.T, to, from string) {
	t.Helper()
	sizes := func() string {
		var b strings.Builder
		_ = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err == nil {
				if stat, err := entry.Info(); err == nil {
					fmt.Fprintln(&b, path, stat.Size(), stat.ModTime())
				}
			}
			return nil
		})
		return b.String()
	}
	for range 100 {
		before := sizes()
		if err := os.CopyFS(to, os.DirFS(from)); err == nil && sizes() == before {
			return
		}
		must(t, os.RemoveAll(to))
	}
	t.Fatal("no moment to copy the folder in")
}

const groupBody = `# HELP done What is done.
# TYPE done counter
done{q="a"} 5
# TYPE temperature gauge
temperature -7.5
# TYPE took histogram
took_bucket{le="1"} 1
took_bucket{le="2"} 4
took_bucket{le="+Inf"} 4
took_sum 6
took_count 4
# TYPE size summary
size{quantile="0.5"} 3
size_sum 9
size_count 3
broken NaN
`

// Groups and what they serve survive a kill as soon as a push with sync=true was answered, and a
// clean stop.
func TestGroupsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	var exposed, listed string
	t.Run("before", func(t *testing.T) {
		p := started(t, dir, "--flush-interval", "500ms")
		for i := range 300 {
			accepted(t, p, "PUT", fmt.Sprintf("/metrics/job/a/i/%d?ttl=%dh", i, 1+i%2), groupBody)
		}
		for i := range 100 { // deleted ones must not come back
			spoken(t, p, "DELETE", fmt.Sprintf("/metrics/job/a/i/%d", i), "")
		}
		accepted(t, p, "PUT", "/metrics/job/last?sync=true", groupBody)
		copyQuiet(t, copied, dir) // as a kill leaves it
		_, exposed = spoken(t, p, "GET", "/metrics", "")
		_, listed = spoken(t, p, "GET", "/api/v1/metrics", "")
	})
	for name, dir := range map[string]string{"killed": copied, "stopped": dir} {
		t.Run(name, func(t *testing.T) {
			p := started(t, dir)
			if _, text := spoken(t, p, "GET", "/metrics", ""); text != exposed || !strings.Contains(text, `job="last"`) {
				t.Errorf("exposed after it: %d bytes, want %d", len(text), len(exposed))
			}
			if _, text := spoken(t, p, "GET", "/api/v1/metrics", ""); text != listed {
				t.Errorf("listed after it: %d bytes, want %d", len(text), len(listed))
			}
			for metric, want := range map[string]string{"done:total": `"value":5`, "temperature": `"value":-7.5`} {
				if code, text := spoken(t, p, "GET", "/v1/external/"+metric+"?label=job=last", ""); code != 200 || !strings.Contains(text, want) {
					t.Errorf("%s: %d %s", metric, code, text)
				}
			}
			// 201 groups, four series each: the deleted ones' are gone, NaN has none.
			if n := p.table.Series(); n != 804 {
				t.Errorf("%d series, want 804", n)
			}
			// The counter goes on from where it was: what came meanwhile is an increase.
			if code, text := spoken(t, p, "POST", "/metrics/job/last", "# TYPE done counter\ndone{q=\"a\"} 12\n"); code != 200 {
				t.Error(code, text)
			}
			if _, text := spoken(t, p, "GET", "/v1/external/done:count:1m?label=job=last", ""); !strings.Contains(text, `"value":7`) {
				t.Error(text)
			}
			spoken(t, p, "DELETE", "/metrics/job/last", "")
			p.groups.Sweep(p.table.Lifetime() + 3*time.Hour)
			if n := p.table.Series(); n != 0 {
				t.Errorf("%d series are left of groups that ended", n)
			}
			if _, text := spoken(t, p, "GET", "/metrics", ""); text != "" {
				t.Errorf("%s is left of groups that ended", text)
			}
		})
	}
}

// endedGroups are documents of groups that end.
type endedGroups struct {
	store.NoDocuments
	job  string
	ends map[store.DocumentKey][]byte
}

func (e *endedGroups) RestoreDocument(key store.DocumentKey, value []byte) error {
	if strings.Contains(string(value), e.job) {
		e.ends[key] = nil
	}
	return nil
}

func (e *endedGroups) Following(bool) map[store.DocumentKey][]byte { return e.ends }

// Series whose group is not on disk, because a process was killed between the two writes, end at the next start.
func TestSeriesWithoutTheirGroupEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		p := started(t, dir)
		accepted(t, p, "PUT", "/metrics/job/first", groupBody)
		accepted(t, p, "PUT", "/metrics/job/second", groupBody)
		accepted(t, p, "PUT", "/v1/external/depth?ttl=forever", "7")
	})
	t.Run("the group ends alone", func(t *testing.T) {
		cfg, ends := parsed(t, dir), &endedGroups{job: "first", ends: map[store.DocumentKey][]byte{}}
		table := aggregate.New(cfg.table, nil, slog.New(slog.DiscardHandler))
		s, err := store.Open(t.Context(), cfg.store, store.Parts{Table: table, Documents: ends, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		if n := table.Series(); n != 9 || len(ends.ends) != 1 {
			t.Errorf("%d series and %d groups are on disk, want 9 and 1", n, len(ends.ends))
		}
		over, end := context.WithCancel(t.Context())
		end()
		must(t, s.Run(over))
		must(t, s.Close(t.Context()))
	})
	p := started(t, dir)
	if n := p.table.Series(); n != 5 || p.groups.Count() != 1 {
		t.Errorf("%d series of %d groups, want 5 of 1", n, p.groups.Count())
	}
}
