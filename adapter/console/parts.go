package console

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Parts are the dependencies of a Server.
type Parts struct {
	Source inspect.Source
	// Answers reports whether what Source has may be shown, and why not otherwise: it may have what an ended namespace
	// had. Nil: always.
	Answers func() (bool, string)
	// Readable says which values of external metrics a reader may have. Nil: there are no policies.
	Readable func(metric.Reader) inspect.Readable
	// Past returns the values of a metric's series in the seconds before now, the oldest first; NaN: unknown.
	// Nil: there are none.
	Past func(namespace, resource, name string) []Past
	// Facts returns what the cluster view has of an autoscaler, with its metrics as they are answered, and the
	// last questions of the autoscalers' controller to this process, by metric. Nil: there is no cluster.
	Facts func(*inspect.Autoscaler) (*explain.Facts, []Use)
	// Begin returns a reader of autoscalers' metrics for a short time: the mean of pods, or the sum
	// of series. Nil: there is no cluster.
	Begin func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (value float64, ok bool)
	// Try says what would happen to StatsD lines. sender is a pod ("namespace/name"), an address or a
	// user; empty: a Unix socket. sees reports whether the reader may see a namespace (empty: all of them).
	Try func(lines []byte, sender string, sees func(namespace string) bool) []Outcome
	// Groups returns the uses of the API groups. Nil: there is no cluster.
	Groups func() []GroupUse
	// Health returns the accounting of samples and the state of the parts.
	Health func() Health
	// Agents is set if agents of nodes may report.
	Agents bool
	// PushUDP and PushHTTP are where to push, for pages that have nothing to show.
	PushUDP, PushHTTP string
	// Deleter deletes groups. Nil: the console changes nothing.
	Deleter Deleter
	// KindOf returns the API version and the kind of a resource such as "deployments.apps", and whether its objects
	// are in namespaces; empty: unknown.
	KindOf func(resource string) (apiVersion, kind string, namespaced bool)
	// Kubectl is the command line of kubectl for this server's metrics APIs.
	Kubectl string
	// Get is the command line that reads from this server, without what to read: "sluice get".
	Get string
	// Access decides who may see what. Nil: all who can connect see all.
	Access Access
	// TLS of the port; nil: plain HTTP.
	TLS    *tls.Config
	Logger *slog.Logger
}

// Past is a series with its values before it was recorded.
type Past struct {
	Series inspect.Series // without a value
	Values []float64
}

// Access authenticates and authorizes requests.
type Access interface {
	// Who returns the principal of a token. The error is for the client; ErrUnavailable: nobody
	// could be asked.
	Who(ctx context.Context, from netip.Prefix, token string) (*metric.Principal, error)
	// May reports whether a principal has a right.
	May(context.Context, *metric.Principal, metric.Right) (bool, error)
}

// Use is the last request of a kind.
type Use struct {
	At   time.Time // zero: none since the start
	Code int       // HTTP status of the answer
}

// GroupUse is the last request for an API group that the cluster's API server forwarded to this
// process.
type GroupUse struct {
	Group string
	Last  Use
	// Succeeded is when the last one was answered without an error; zero: none was.
	Succeeded time.Time
}

// Outcome is what would happen to one sample of a line.
type Outcome struct {
	Line string
	// Reason is a reason of rejection, "pending" or "applied"; empty: the reader may not see the namespace, and what is
	// there decides. Why is a sentence.
	Reason, Why string
	// The fields below are empty if the line cannot be read.
	Metric, Kind, Value string
	// Of is the described object; Namespace its namespace.
	Of, Namespace string
	Labels        []metric.Label
	// New reports whether the sample would create the metric on the object, NewSeries whether it would
	// create a series.
	New, NewSeries bool
	// Stats are the expressions by which the metric could be read.
	Stats []string
}

// Applied reports whether the sample would be applied.
func (o *Outcome) Applied() bool { return o.Reason == metric.Applied.String() }

// Health is the state of the process.
type Health struct {
	Version   string
	Receivers []Receiver
	Checks    []Check
	Series    int // live ones
	// HeldSeries and HeldBytes count against MaxSeries and MaxBytes: copies of other replicas', too.
	HeldSeries, MaxSeries int
	HeldBytes, MaxBytes   int64
	// Replicas is the number of all replicas that are known; 0: there is one. Others are those beside this one.
	Replicas int
	Others   []Replica
}

// Replica is another replica, as this one hears it.
type Replica struct {
	Name string
	// State is in a few words, and Fault set if it is none of a replica that works.
	State string
	Fault bool
	Lag   time.Duration // since the newest state that came
	Clock time.Duration // this replica's clock less its clock
	// Series and Bytes are those of the copy here, Received what came from it, in bytes.
	Series   int
	Bytes    int64
	Received int64
}

// Receiver is the account of a receiver's samples.
type Receiver struct {
	Name                       string
	Received, Applied, Pending uint64
	Rejected                   []Count // by reason; none of 0
	// Datagrams is set for receivers at which the kernel may drop datagrams.
	Datagrams   bool
	KernelDrops uint64
}

// Count is a number of rejected samples.
type Count struct {
	Reason string
	Number uint64
}

// Check is a part's readiness.
type Check struct {
	Name   string
	Ready  bool
	Detail string
}
