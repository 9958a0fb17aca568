package agents

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxContainers bounds the containers of a node.
const maxContainers = 20_000

// Renewal is a pod of which an agent knows usage from before it was created: of another pod of its name.
type Renewal struct {
	Namespace, Pod string
	Created        time.Time
}

// usage takes what an agent says that its node uses.
func (t *stream) usage(u *agentwire.Usage) error {
	if len(u.Containers) > maxContainers {
		return status.Errorf(codes.InvalidArgument, "a node has %d containers; must be at most %d", len(u.Containers), maxContainers)
	}
	if t.server.parts.Usage == nil {
		return nil
	}
	records := make([]usage.Record, 0, len(u.Containers))
	for _, c := range u.Containers {
		r := usage.Record{
			Container: metric.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Container},
			CPU:       resource(c.Cpu), Memory: resource(c.Memory),
			Newest: usage.Newest{State: usage.State(min(c.State, uint32(usage.Zero))), CPU: c.CpuNanocores, Memory: c.MemoryBytes,
				End: moment(c.EndNanos), Window: time.Duration(c.WindowNanos)},
			Started: moment(c.StartedNanos),
		}
		if c.SinceMillis != 0 {
			r.Since = time.UnixMilli(c.SinceMillis)
		}
		records = append(records, r)
	}
	for _, r := range t.server.parts.Usage(t.node, records) {
		renewed := &agentwire.Renewed{Namespace: r.Namespace, Pod: r.Pod, CreatedSeconds: r.Created.Unix()}
		if err := t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Renewed{Renewed: renewed}}); err != nil {
			return err
		}
	}
	return nil
}

func moment(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

func resource(r *agentwire.ResourceUsage) (u usage.Usage) {
	if r == nil || len(r.Values) != 3*int(usage.Windows) || len(r.CoveredMillis) != int(usage.Windows) {
		return u
	}
	u.End = time.UnixMilli(r.EndMillis)
	for w := range u.Windows {
		u.Windows[w] = usage.Derived{Mean: float64(r.Values[3*w]), Max: float64(r.Values[3*w+1]), NinetyFive: float64(r.Values[3*w+2]),
			Covered: time.Duration(r.CoveredMillis[w]) * time.Millisecond}
	}
	return u
}
