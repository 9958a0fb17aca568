package push

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/metric"
)

// heavyPushes are those that take much memory beside their body. They wait for the disk.
var heavyPushes = map[string]func(h *harness, n int){
	"remote write": func(h *harness, _ int) { h.posts("/api/v1/write?sync=true", manyParts()) },
	"a group": func(h *harness, n int) {
		h.posts(groupOfManyLabels(n)+"?sync=true", "a 1\nb 1\n"+strings.Repeat("#\n", 100))
	},
}

// manyParts is a remote write of as many parts of histograms as one may have, in 131 KB, and of a gauge.
func manyParts() string {
	request := []byte(nil)
	for i := range 8 {
		one := label1(label1(nil, "__name__", "x_bucket"), "le", fmt.Sprint(i))
		request = bytesField(request, 1, append(one, strings.Repeat("\x12\x00", 8192)...))
	}
	gauge := bytesField(label1(nil, "__name__", "g"), 2, remoteSample(1, time.Now()))
	return string(s2.EncodeSnappy(nil, bytesField(request, 1, gauge)))
}

func label1(series []byte, key, value string) []byte {
	return bytesField(series, 1, bytesField(bytesField(nil, 1, []byte(key)), 2, []byte(value)))
}

func groupOfManyLabels(n int) string {
	path := fmt.Sprint("/metrics/job/", n)
	for i := range 60 {
		path += fmt.Sprintf("/l%d/v", i)
	}
	return path
}

// posts sends a request and reads its answer, whatever it is.
func (h *harness) posts(path, body string) {
	res, err := h.client.Post(h.url+path, "", strings.NewReader(body))
	if err != nil {
		h.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode >= http.StatusInternalServerError {
		h.Errorf("POST %.40s: %d", path, res.StatusCode)
	}
}

// Few pushes that take much memory are at work at once, and those that wait for the disk hold up no other.
func TestHeavyPushesAtOnce(t *testing.T) {
	for name, push := range heavyPushes {
		runInVirtualTime(t, name, func(t *testing.T) {
			h := start(t, inMemory)
			h.table.slow, h.disk.wait = make(chan struct{}), make(chan struct{})
			ofOneAddress := int64(runtime.GOMAXPROCS(0))
			var all sync.WaitGroup
			for n := range int(ofOneAddress) + 3 {
				all.Go(func() { push(h, n) })
			}
			synctest.Wait()
			if n := h.table.waiting.Load(); n != ofOneAddress {
				t.Errorf("%d pushes are at work, want %d", n, ofOneAddress)
			}
			close(h.table.slow)
			synctest.Wait()
			if n := h.disk.calls.Load(); n != ofOneAddress+3 {
				t.Errorf("%d pushes wait for the disk, of %d", n, ofOneAddress+3)
			}
			close(h.disk.wait)
			all.Wait()
		})
	}
}

// discards is an Applier that applies nothing.
type discards struct{ *writer }

func (discards) Apply(*metric.Sample) metric.Reason { return metric.Applied }

// Pushes that wait for the disk hold no more than their bodies.
func TestPushesThatWaitForTheDiskHoldLittle(t *testing.T) {
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "a{b=\"%d\"} 1\n", i)
	}
	for name, c := range map[string]struct {
		path string
		body func() string
	}{
		"remote write": {"/api/v1/write?sync=true", manyParts},
		"a group":      {"/metrics/job/a?sync=true", lines.String},
	} {
		runInVirtualTime(t, name, func(t *testing.T) {
			h := start(t, inMemory, func(_ *Config, p *Parts) {
				fresh := p.NewApplier
				p.NewApplier = func() Applier { return discards{fresh().(*writer)} }
			})
			h.table, h.disk.wait = nil, make(chan struct{})
			const pushes, most = 40, 24 << 20
			body := c.body()
			before := heapAlloc()
			var all sync.WaitGroup
			for range pushes {
				all.Go(func() { h.posts(c.path, body) })
			}
			synctest.Wait()
			if grown := int64(heapAlloc()) - int64(before); h.disk.calls.Load() != pushes || grown > most {
				t.Errorf("%d pushes wait, and hold %d KiB", h.disk.calls.Load(), grown>>10)
			}
			close(h.disk.wait)
			all.Wait()
		})
	}
}

// heapAlloc is the memory that is in use, without that of pools.
func heapAlloc() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
