package agents

import (
	"cmp"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// liveAge is the age up to which samples count as of now.
	liveAge = 300 * time.Millisecond
	// caughtUpAge is the age of a frame below which the agent has told what came before.
	caughtUpAge = time.Second
	// longFrame is the age from which the address of a frame's first sample may have been another pod's, or the length from which its
	// object may have been another one.
	longFrame = 2 * time.Second
	// recordedAfter is the time after which the table has recorded a sample that counted as of now.
	recordedAfter = time.Second
	// maxWait is how long changes wait for their sender, maxWaiting how many of them, maxWaitingBytes with how many bytes.
	// Time in which the API server is away does not count, up to maxOutageWait, nor while all that waits has more than
	// maxOutageBytes.
	maxWait         = 30 * time.Second
	maxOutageWait   = 10 * time.Minute
	maxOutageBytes  = 64 << 20
	maxWaiting      = 10_000
	maxWaitingBytes = 16 << 20
	// maxSamples is the number of samples of a change that anybody could have pushed.
	maxSamples = 1 << 40
)

// definition is a series of a stream.
type definition struct {
	number  uint32
	address netip.Addr
	sample  metric.Sample // without a value
	object  metric.Object // of the sample, if its request named one
	bad     string        // why no sample of it is taken; empty: nothing is wrong
	reason  metric.Reason // with bad
	unkept  bool          // it is that of a frame alone, and the agent defines the series again
	share   share         // of the room
	uses    int           // its stream, and the changes that wait; 0: it has no room
}

// unknown says that nobody knows the sender.
func (d *definition) unknown() string {
	if !d.address.IsValid() {
		return "the pod that it names by its UID or container is not known"
	}
	return "the address " + d.address.String() + " is that of no pod"
}

// checkObject returns what is wrong with an object that an agent names: its version of Sluice may know other resources.
func (s *Server) checkObject(o *metric.Object) string {
	const separators = "/%?* "
	switch {
	case strings.ContainsAny(o.Namespace, separators), strings.ContainsAny(o.Name, separators),
		(o.Resource == "") != (o.Name == ""), len(o.Namespace) > 253, len(o.Name) > 253:
		return "the name of the object is invalid"
	case o.Resource == "" || s.parts.Canonical == nil:
		return ""
	}
	canonical, namespaced, err := s.parts.Canonical(o.Resource)
	switch {
	case err != nil:
		return err.Error()
	case canonical != o.Resource || namespaced != (o.Namespace != ""):
		return "the agent does not know the resource " + canonical + " as this server does: update the older one"
	}
	return ""
}

// waiting is a change whose sender is not known yet.
type waiting struct {
	number uint64 // of its frame
	index  uint32 // in its frame
	series *definition
	change *agentwire.Change
	at     time.Time
	began  time.Time // when its first sample came
}

// frame is a frame with the series of its changes. Their numbers may mean others, or none, once it is applied.
type frame struct {
	*agentwire.Frame
	of []*definition
}

// define notes the definitions of a frame. One for which there is no room is rejected with its samples.
func (t *stream) define(f *frame) error {
	for _, number := range f.Forgotten {
		t.undefine(number)
	}
	unkept := map[uint32]*definition{}
	for _, d := range f.Series {
		one, err := t.server.definitionOf(d)
		if err != nil {
			return err
		}
		if t.last = max(t.last, d.Number); !t.keep(one) {
			one.unkept, one.reason, one.bad = true, metric.OverLimit, one.withoutRoom()
			unkept[d.Number] = one
		}
		switch {
		case t.defined > maxDefinedBytes:
			return status.Errorf(codes.ResourceExhausted, "the series of the stream have more than %d bytes", maxDefinedBytes)
		case t.of.held.Load() > maxNodeBytes:
			return status.Errorf(codes.ResourceExhausted, "the series of the node's streams have more than %d bytes", maxNodeBytes)
		}
	}
	f.of = make([]*definition, len(f.Changes))
	for i, c := range f.Changes {
		if c.Samples > maxSamples {
			return status.Errorf(codes.InvalidArgument, "a change has %d samples", c.Samples)
		}
		f.of[i] = t.series[c.Series]
		if f.of[i] == nil {
			f.of[i] = unkept[c.Series]
		}
		switch {
		case f.of[i] != nil:
		case c.Series == 0 || c.Series > t.last:
			return status.Errorf(codes.InvalidArgument, "a change is of series %d, which is not defined", c.Series)
		default:
			f.of[i] = t.forgotten(c.Series)
			unkept[c.Series] = f.of[i]
		}
	}
	return nil
}

// definitionOf reads a definition.
func (s *Server) definitionOf(d *agentwire.Series) (*definition, error) {
	kind := metric.Kind(d.Kind)
	address, ok := netip.AddrFromSlice(d.Address)
	if d.Kind > math.MaxUint8 || kind.DefaultStat() == metric.NoStat || !ok && len(d.Address) > 0 || d.Separator > math.MaxUint8 {
		return nil, status.Errorf(codes.InvalidArgument, "the definition of series %d is invalid", d.Number)
	}
	one := &definition{number: d.Number, address: address.Unmap(), sample: metric.Sample{Name: d.Name, Kind: kind,
		Tags: d.Tags, Separator: byte(d.Separator), Container: d.Container, External: d.External,
		DefaultExternal: d.DefaultExternal, TTL: time.Duration(max(d.TtlNanos, 0))}}
	for _, l := range d.Labels {
		one.sample.Fields = append(one.sample.Fields, metric.Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	if o := d.Object; o != nil {
		one.object = metric.Object{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
		one.sample.Object, one.reason, one.bad = &one.object, metric.Identity, s.checkObject(&one.object)
	}
	return one, nil
}

// wasRejected is why samples of a series are rejected that the agent sent before it heard of a rejection.
const wasRejected = "the series was rejected; it counts once the agent has defined it again"

// forgotten stands for a series that was rejected, and so is not kept.
func (t *stream) forgotten(number uint32) *definition {
	reason := cmp.Or(t.said[number], t.saidBefore[number], metric.OverLimit)
	return &definition{number: number, unkept: true, reason: reason, bad: wasRejected}
}

// apply applies frames at once.
func (t *stream) apply(frames []frame) error {
	applier := <-t.server.appliers
	applier.Online()
	applier.EnterFrames()
	now := time.Now()
	var rejected []rejection
	samples := uint64(0)
	for _, f := range frames {
		applier.Frame(t.feed, f.Number)
		at := t.countsAt(now.Add(-time.Duration(max(f.AgeNanos, 0))), now)
		began := now.Add(-time.Duration(max(f.FirstNanos, f.AgeNanos, 0)))
		t.fresh = f.Number > t.restored
		for i, c := range f.Changes {
			d := f.of[i]
			samples += c.Samples
			applier.Change(uint32(i))
			applied, reason, why := t.change(applier, d, c, at, began, now)
			switch {
			case reason == metric.Pending && f.Number <= t.restored:
				reason, why = metric.Identity, d.unknown()+" any more"
			case reason == metric.Pending:
				if reason, why = t.wait(&waiting{f.Number, uint32(i), d, c, at, began}); reason == metric.Pending {
					applier.Wait()
				}
			}
			if reason == metric.Pending {
				continue
			}
			if n := count(c, applied, reason, t.server.parts.Account.CountN); reason != metric.Applied {
				rejected = append(rejected, rejection{d, reason, n, why, began, now.Sub(began) > longFrame})
			}
		}
	}
	applier.LeaveFrames()
	applier.Offline()
	t.server.appliers <- applier
	t.applied = frames[len(frames)-1].Number
	t.marks = append(t.marks, appliedMark{t.applied, time.Now()})
	lag := time.Duration(max(frames[len(frames)-1].AgeNanos, 0))
	t.of.framesCame(len(t.series), samples, lag, now)
	if !t.caughtUp && lag < caughtUpAge {
		t.caughtUp = true
		t.server.hasCaughtUp(t.feed)
	}
	return t.tell(rejected)
}

// countsAt is the time as of which a frame counts, that has an age. The table takes a gauge's older value for outdated: so no frame
// may count as of a time before that at which the table recorded the one before. But a sample may be of the former holder of its
// address, so none counts much later than it came.
func (t *stream) countsAt(at, now time.Time) time.Time {
	if at.Before(t.recorded) && (t.recorded.Before(now) || now.Sub(at) <= 2*recordedAfter) {
		at = t.recorded
	}
	if now.Sub(at) <= liveAge {
		at, t.recorded = now, now.Add(recordedAfter)
	}
	return at
}

// change applies a change, or returns the reason why it is rejected, or why the rest of it is after some samples were applied.
func (t *stream) change(applier Applier, d *definition, c *agentwire.Change, at, began, now time.Time) (applied uint64, reason metric.Reason, why string) {
	s := d.sample
	if d.bad != "" {
		return 0, d.reason, d.bad
	}
	if senders := t.server.parts.Senders; senders != nil {
		if reason, why := t.sender(&s, d.address); reason != metric.Applied {
			return 0, reason, why
		}
		if now.Sub(began) > longFrame && s.Sender.Follows(began) {
			return 0, metric.Identity, "another pod had the address " + d.address.String() + " when the first of the samples came"
		}
		if at.Sub(began) > longFrame && t.isFormer(s, began) {
			return 0, metric.Identity, "what the samples are about, or its namespace, was created after the first of them came"
		}
	}
	if now.Sub(at) > liveAge {
		s.Arrived = at.UnixNano()
	}
	s.Dated, s.Rate = c.DatedNanos, c.Rate
	switch c.Op {
	case agentwire.Op_ADD:
		s.Op = metric.Add
	case agentwire.Op_ASSIGN:
		s.Op = metric.Assign
	case agentwire.Op_SHIFT:
		s.Op = metric.Shift
	case agentwire.Op_OBSERVE:
		s.Op = metric.Observe
		applied, reason = each(c.Values, func(v float64) metric.Reason { s.SetFloat(v); return applier.Apply(&s) })
		return applied, reason, ""
	case agentwire.Op_INSERT:
		s.Op = metric.Insert
		applied, reason = each(c.Members, func(m []byte) metric.Reason { s.Member = m; return applier.Apply(&s) })
		return applied, reason, ""
	case agentwire.Op_ACCUMULATE, agentwire.Op_MERGE:
		if s.Op = metric.Accumulate; c.Op == agentwire.Op_MERGE {
			s.Op = metric.Merge
		}
		s.Started, s.Late, s.Histogram = max(c.StartedNanos, 0), c.Late && c.DatedNanos > 0, c.Histogram.Metric()
	case agentwire.Op_MARK_STALE:
		s.Op = metric.MarkStale
	default:
		return 0, metric.Malformed, "the agent does with it what this server does not know: update the server"
	}
	if s.Whole, s.Fraction = c.Whole, float64(c.Nanos)/metric.Nanos; c.Number != 0 {
		s.SetFloat(c.Number)
	}
	return 0, applier.Apply(&s), ""
}

// isFormer reports whether a sample that came at a time was about the former holder of a name.
func (t *stream) isFormer(s metric.Sample, at time.Time) bool {
	s.Arrived = at.UnixNano()
	return t.server.parts.IsFormer(&s)
}

// each applies the values of a change, up to the first that is rejected: they are of one series, so it speaks for the rest.
func each[T any](all []T, apply func(T) metric.Reason) (applied uint64, reason metric.Reason) {
	for i, one := range all {
		if reason := apply(one); reason != metric.Applied {
			return uint64(i), reason
		}
	}
	return uint64(len(all)), metric.Applied
}

// count counts the samples of a change by what became of them, and returns how many were not applied. applied is how many were
// before one was rejected.
func count(c *agentwire.Change, applied uint64, reason metric.Reason, add func(metric.Reason, uint64)) (rejected uint64) {
	if reason == metric.Applied {
		add(reason, c.Samples)
		return 0
	}
	if applied = min(applied, c.Samples); applied > 0 {
		add(metric.Applied, applied)
	}
	add(reason, c.Samples-applied)
	return c.Samples - applied
}

// noSender is that of a sample from a Unix socket which claims none.
var noSender = &metric.Sender{Key: metric.LocalKey, Known: true, Claimed: true}

// senderOf returns the sender of a sample: the holder of its address, or the pod that it claims to be of. Nil: that
// is not known.
func (s *Server) senderOf(of *metric.Sample, address netip.Addr) *metric.Sender {
	if address.IsValid() {
		return s.parts.Senders.Sender(address)
	}
	sender, claims := s.parts.Claimant(of)
	if !claims {
		return noSender
	}
	return sender
}

// sender gives a sample its sender, if the agent may speak for it.
func (t *stream) sender(s *metric.Sample, address netip.Addr) (metric.Reason, string) {
	parts := &t.server.parts
	s.Sender = t.server.senderOf(s, address)
	switch {
	case s.Sender == noSender:
		return metric.Identity,
			"it came from a Unix socket, which does not say who sends, and names no pod by its UID or container"
	case s.Sender == nil:
		return metric.Pending, ""
	case s.Sender.Pod == nil:
		return metric.Identity, "the address " + address.String() + " is that of no pod, or of several"
	}
	switch node := parts.NodeOf(s.Sender.Pod); {
	case node == t.node:
	case !address.IsValid():
		return metric.Identity, "it came from a Unix socket of node " + t.node + ", and names a pod of node " + node
	case node == "" || t.server.hasAgent(node):
		return metric.Identity, "the agent of node " + t.node + " does not speak for pods of node " + node
	case t.fresh && time.Since(t.server.began) < gather: // the node's own agent may be on its way back
		return metric.Pending, ""
	}
	return metric.Applied, ""
}

// wait keeps a change until its sender is known.
func (t *stream) wait(w *waiting) (metric.Reason, string) {
	size := sizeOf(w.change)
	if len(t.waiting) >= maxWaiting || t.waits+size > maxWaitingBytes || t.of.held.Load()+int64(size) > maxNodeBytes ||
		!t.server.hold(w) {
		return metric.Identity, "the sender is not known, and too much waits"
	}
	t.waiting, t.waits = append(t.waiting, w), t.waits+size
	t.of.held.Add(int64(size))
	t.server.parts.Account.HoldN(w.change.Samples)
	return metric.Pending, ""
}

// settle tries again what waits.
func (t *stream) settle(now time.Time) error {
	if len(t.waiting) == 0 {
		return nil
	}
	applier := <-t.server.appliers
	applier.Online()
	applier.EnterFrames()
	if t.server.isBlind() {
		t.blind = now
	}
	var rejected []rejection
	first, left := uint64(0), t.waiting[:0]
	for _, w := range t.waiting {
		applier.Frame(t.feed, w.number)
		applier.Change(w.index)
		t.fresh = w.number > t.restored
		applied, reason, why := t.change(applier, w.series, w.change, w.at, w.began, now)
		late := now.Sub(w.began) > longFrame
		if reason == metric.Pending {
			if !t.hasExpired(w, now) {
				applier.Wait()
				left = append(left, w)
				continue
			}
			reason, why, late = metric.Identity, w.series.unknown(), false
		}
		size := sizeOf(w.change)
		t.waits -= size
		t.of.held.Add(-int64(size))
		t.server.drop(w)
		n := count(w.change, applied, reason, t.server.parts.Account.Settle)
		if first == 0 {
			first = w.number
		}
		if reason != metric.Applied {
			rejected = append(rejected, rejection{w.series, reason, n, why, w.began, late})
		}
	}
	clear(t.waiting[len(left):])
	t.waiting = left
	applier.LeaveFrames()
	applier.Offline()
	t.server.appliers <- applier
	t.appliedLate(first, time.Now())
	return t.tell(rejected)
}

// hasExpired reports whether a change waits no longer.
func (t *stream) hasExpired(w *waiting, now time.Time) bool {
	switch age := now.Sub(w.at); {
	case age < maxWait:
		return false
	case age >= maxOutageWait, t.server.waits.Load() > maxOutageBytes:
		return true
	}
	return now.Sub(t.blind) >= maxWait
}

// isBlind reports whether no sender can become known.
func (s *Server) isBlind() bool {
	if s.parts.Blind == nil {
		return false
	}
	_, _, blind := s.parts.Blind()
	return blind
}

// appliedLate notes that the last change of a frame was applied after the frame. Frames after it are acknowledged later still.
func (t *stream) appliedLate(number uint64, at time.Time) {
	for i := range t.marks {
		if t.marks[i].number >= number && number != 0 {
			t.marks[i].at = at
			return
		}
	}
}

// rejection is samples of a series that were rejected.
type rejection struct {
	series  *definition
	reason  metric.Reason
	samples uint64
	why     string
	began   time.Time // when the first of them came
	late    bool      // the address, or the object, may be another one's since
}

// ofOneSample reports whether a reason is that of a value: the next sample of the series may be good.
func ofOneSample(r metric.Reason) bool {
	return r == metric.BadValue || r == metric.BadRate || r == metric.Outdated
}

// tell tells the agent, once a tick for each series, and what lists rejections. A series that the agent rejects for some time
// from then on is not kept: the agent defines it again.
func (t *stream) tell(all []rejection) error {
	for i := range all {
		r := &all[i]
		number := r.series.number
		now := t.series[number] // a number of a former stream may mean another series now
		isOfStream := now == r.series || now == nil && r.series.unkept
		hears := isOfStream && t.said[number] == metric.Applied && !ofOneSample(r.reason)
		t.list(r, hears)
		if !hears {
			continue
		}
		t.said[number] = r.reason
		hold := rejectFor
		if r.late && r.reason == metric.Identity {
			hold = 0
		} else {
			t.undefine(number)
		}
		if err := t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Rejection{Rejection: &agentwire.Rejection{
			Series: number, Reason: r.reason.String(), Words: r.why, ForNanos: int64(hold)}}}); err != nil {
			return err
		}
	}
	return nil
}

// list counts a rejection, and tells what lists rejections, of a flood some: words for a list, or for an agent that hears of it,
// take far longer than the rest.
func (t *stream) list(r *rejection, hears bool) {
	if r.why == wasRejected { // it was listed with its name
		t.of.rejected(r, false)
		return
	}
	weight, s := ratelog.Weight(t.server.rejected[r.reason].Allow()), r.series.sample
	if weight > 0 || hears {
		t.explain(r, &s)
	}
	t.of.rejected(r, weight > 0)
	if weight > 0 && t.server.parts.Rejected != nil {
		t.server.parts.Rejected(r.reason, &s, r.samples*weight, r.why)
	}
}

// explain gives a rejection its words, and a sample of its series the sender that it is listed for.
func (t *stream) explain(r *rejection, s *metric.Sample) {
	if t.server.parts.Senders != nil {
		s.Sender = t.server.senderOf(s, r.series.address)
	}
	if r.why == "" && t.server.parts.Explain != nil {
		r.why = t.server.parts.Explain(r.reason, s)
	}
	if s.Sender.Follows(r.began) {
		s.Sender = nil // another pod's samples are not listed for the pod that has its address now
	}
}
