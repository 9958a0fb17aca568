package agent

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

const (
	// quietAfter is the time without a sample after which the next one is urgent: an autoscaler may wait for it.
	quietAfter = time.Minute
	// forgetAfter is the time without a sample after which the agent forgets a series. The server does not.
	forgetAfter = 10 * time.Minute
	sweepEvery  = time.Minute
	// seriesBytes is what a series takes beside its strings, labelBytes what a label of HTTP does.
	seriesBytes, labelBytes = 500, 100
	// maxFrameBytes bounds a frame and the definitions of its series.
	maxFrameBytes = 1 << 20
	// beganWithin is the time in which the changes of a frame begin: a server takes a pod's for another one's if the frame began
	// before the pod.
	beganWithin = time.Second
)

// Collector counts samples up and keeps them until they are on a server's disk. It is safe for concurrent use.
//
// A frame that no server was sent goes to the one that the agent reports to. From then on it belongs to the run of that
// server, and no other one is sent it: see run.go.
type Collector struct {
	maxBytes  int64
	maxSeries int
	// dirty wakes the link for the first change after a frame, urgent for one that an autoscaler may wait for.
	dirty, urgent chan struct{}

	mu      sync.Mutex // guards the fields below
	byKey   map[string]*series
	shares  map[netip.Addr]*share // those with series
	key     []byte                // scratch space
	changed []*series             // have changes, in the order in which these began
	frames  []*frame              // no server was sent them; in their order
	runs    []*run                // in the order of the last streams
	current *run                  // of the server that the agent reports to, or did last
	bytes   int64                 // of series, changes and frames
	held    uint64                // samples of changes and frames
	swept   time.Time

	acknowledged, dropped, lost atomic.Uint64 // samples
}

// series is a series as clients spell it: several spellings of one are several.
type series struct {
	key        string
	definition *agentwire.Series // without a number, which it has on each stream
	changes    []*change         // since the last frame
	began      time.Time         // when the first of them came
	latest     time.Time         // of the last sample
	uses       int               // changes and frames that name it
	of         *share

	// rejected is why the server takes no sample until a time.
	rejected metric.Reason
	until    time.Time
}

// frame is the samples of some time.
type frame struct {
	number  uint64    // in its run; 0: no server was sent it
	began   time.Time // of its first sample
	made    time.Time
	last    bool // the agent ends
	changes []seriesChange
	samples uint64
	bytes   int64
}

type seriesChange struct {
	*series
	*change
}

// NewCollector makes an empty Collector.
func NewCollector(c Config) *Collector {
	return &Collector{maxBytes: int64(c.MaxBytes), maxSeries: c.MaxSeries, dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		byKey: map[string]*series{}, shares: map[netip.Addr]*share{}}
}

// apply takes one sample, or returns the reason why it is rejected. It keeps none of its bytes.
func (c *Collector) apply(s *metric.Sample) metric.Reason {
	next, rejected := newChange(s)
	if rejected != metric.Applied {
		return rejected
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	to, rejected := c.seriesLocked(s, now)
	if rejected != metric.Applied {
		return rejected
	}
	for !c.addLocked(to, s, next, now) {
		if !c.loseOldestLocked(to.of) {
			c.dropped.Add(1)
			return metric.OverLimit
		}
	}
	c.held++
	if now.Sub(to.latest) > quietAfter {
		wake(c.urgent)
	}
	to.latest = now
	return metric.Applied
}

// seriesLocked finds or makes the series of a sample.
func (c *Collector) seriesLocked(s *metric.Sample, now time.Time) (*series, metric.Reason) {
	c.key = appendKey(c.key[:0], s)
	if found := c.byKey[string(c.key)]; found != nil {
		if found.rejected != metric.Applied && now.Before(found.until) {
			return nil, found.rejected
		}
		found.rejected = metric.Applied
		return found, metric.Applied
	}
	of := c.shareLocked(s)
	if !c.mayKnowLocked(of, sizeOf(len(c.key), len(s.Fields))) {
		c.dropped.Add(1)
		return nil, metric.OverLimit
	}
	made := &series{key: string(c.key), definition: definitionOf(s), of: of}
	c.knowLocked(made)
	return made, metric.Applied
}

// sizeOf is the memory of a series, with its key and its definition.
func sizeOf(key, labels int) int64 { return seriesBytes + 2*int64(key) + labelBytes*int64(labels) }

func (one *series) size() int64 { return sizeOf(len(one.key), len(one.definition.Labels)) }

// appendKey appends what tells a series from others. No part of a line has a newline.
func appendKey(dst []byte, s *metric.Sample) []byte {
	flags := byte(s.Kind)
	if s.DefaultExternal {
		flags |= 1 << 7
	}
	dst = append(dst, flags, s.Separator)
	if s.Sender != nil {
		address := s.Sender.Address.As16()
		dst = append(dst, address[:]...)
	}
	for _, part := range [...][]byte{s.Name, s.Container, s.External, s.Tags} {
		dst = append(append(dst, part...), '\n')
	}
	return appendHTTPKey(dst, s)
}

// appendHTTPKey appends what only samples of HTTP have. Their labels may have any byte, so lengths come first.
func appendHTTPKey(dst []byte, s *metric.Sample) []byte {
	if s.Object == nil && s.TTL == 0 && len(s.Fields) == 0 {
		return dst
	}
	dst = binary.AppendVarint(dst, int64(s.TTL))
	if o := s.Object; o != nil {
		dst = blob.AppendString(blob.AppendString(blob.AppendString(append(dst, 1), o.Resource), o.Namespace), o.Name)
	} else {
		dst = append(dst, 0)
	}
	for _, l := range s.Fields {
		dst = blob.AppendString(blob.AppendString(dst, l.Key), l.Value)
	}
	return dst
}

func definitionOf(s *metric.Sample) *agentwire.Series {
	d := &agentwire.Series{Kind: uint32(s.Kind), Name: clone(s.Name), Tags: clone(s.Tags), Separator: uint32(s.Separator),
		Container: clone(s.Container), External: clone(s.External), DefaultExternal: s.DefaultExternal,
		TtlNanos: int64(s.TTL)}
	if o := s.Object; o != nil {
		d.Object = &agentwire.Object{Resource: strings.Clone(o.Resource), Namespace: strings.Clone(o.Namespace),
			Name: strings.Clone(o.Name)}
	}
	for _, l := range s.Fields {
		d.Labels = append(d.Labels, &agentwire.Label{Key: strings.Clone(l.Key), Value: strings.Clone(l.Value)})
	}
	if s.Sender != nil && s.Sender.Address.IsValid() {
		d.Address = s.Sender.Address.Unmap().AsSlice()
	}
	return d
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// addLocked adds a sample to the last change of its series, where both count as one, else as another change. It returns
// false if there is no memory for it.
func (c *Collector) addLocked(to *series, s *metric.Sample, next change, now time.Time) bool {
	left := c.leftLocked(to.of)
	if n := len(to.changes); n > 0 {
		if more, merged := to.changes[n-1].merge(s, next, left); merged {
			c.holdLocked(to.of, more)
			return true
		}
	}
	next.own(s)
	if next.bytes() > left {
		return false
	}
	c.holdLocked(to.of, next.bytes())
	if len(to.changes) == 0 {
		if len(c.changed) == 0 {
			wake(c.dirty)
		}
		c.changed, to.began = append(c.changed, to), now
	}
	to.changes = append(to.changes, &next)
	to.uses++
	return true
}

// cut makes frames of all changes, and reports whether there were any.
func (c *Collector) cut(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cutLocked(now)
}

func (c *Collector) cutLocked(now time.Time) bool {
	var next *frame
	for _, one := range c.changed {
		for _, changed := range one.changes {
			size := changed.bytes()
			if next == nil || next.bytes+size+int64(len(one.key)) > maxFrameBytes || one.began.Sub(next.began) > beganWithin {
				next = &frame{began: one.began, made: now}
				c.frames = append(c.frames, next)
			}
			next.changes = append(next.changes, seriesChange{one, changed})
			next.samples += changed.samples
			next.bytes += size + int64(len(one.key))
		}
		one.changes = nil
	}
	clear(c.changed)
	c.changed = c.changed[:0]
	return next != nil
}

// beat makes an empty frame: the server learns that the agent lives, and how far it is.
func (c *Collector) beat(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, &frame{began: now, made: now})
}

// end makes frames of all changes, of which an empty one is the last: it must not be sent before it says so.
func (c *Collector) end(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(now)
	c.frames = append(c.frames, &frame{began: now, made: now, last: true})
}

// reject takes no sample of a series for some time.
func (c *Collector) reject(one *series, reason metric.Reason, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.rejected, one.until = reason, until
}

// sweep forgets series without samples, once in a while, and returns them.
func (c *Collector) sweep(now time.Time) (forgotten []*series) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.swept) < sweepEvery {
		return nil
	}
	c.swept = now
	for _, one := range c.byKey {
		if one.uses > 0 || now.Sub(one.latest) < forgetAfter || now.Before(one.until) {
			continue
		}
		c.unknowLocked(one)
		forgotten = append(forgotten, one)
	}
	return forgotten
}

// Held is the number of samples that no server has on disk.
func (c *Collector) Held() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// state is what the Collector holds.
type state struct {
	held, samples uint64 // bytes, samples
	frames        int
	series        int
	oldest        time.Duration // age of the oldest frame
	used          float64       // share of the memory
}

func (c *Collector) state(now time.Time) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{held: uint64(c.bytes), samples: c.held, series: len(c.byKey), used: float64(c.bytes) / float64(c.maxBytes)}
	s.count(c.frames, now)
	for _, r := range c.runs {
		s.count(r.frames, now)
	}
	return s
}

func (s *state) count(frames []*frame, now time.Time) {
	s.frames += len(frames)
	if len(frames) > 0 {
		s.oldest = max(s.oldest, now.Sub(frames[0].made))
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
