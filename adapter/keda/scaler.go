package keda

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Source reads the table.
type Source interface {
	// Ask prepares a question. The error is metric.ErrInvalidQuery, or metric.ErrNotFound for a
	// resource that is unknown.
	Ask(trigger.Question) (Asked, error)
	// Look calls the functions of all questions that are watched if a sample of a selected series may have
	// arrived since the last call, or a series may have been created. It is cheap.
	Look()
}

// Asked is a question that can be repeated. One goroutine uses it. If it is watched, that goroutine is the
// one of Source.Look.
type Asked interface {
	// Value is the sum of the values of all series, as of now. The error is metric.ErrNotFound or
	// metric.ErrInvalidQuery.
	Value() (metric.Number, error)
	// Watch has Source.Look call a function, until Unwatch.
	Watch(changed func())
	Unwatch()
}

// scaler implements the protocol.
type scaler struct {
	externalscaler.UnimplementedExternalScalerServer
	source  Source
	ready   func() (bool, string)
	watcher *watcher
	count   *counters
}

// GetMetricSpec answers from the metadata alone, so neither a metric that nobody has pushed nor the start
// of the process is an error. Wrong metadata is none either: the operator only logs such an error, and
// shows that of the value.
func (s *scaler) GetMetricSpec(_ context.Context,
	ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	t, err := trigger.Parse(ref.GetNamespace(), ref.GetScalerMetadata())
	name, target := cmp.Or(t.MetricName(), "invalid"), t.Target
	if err != nil {
		target = 1
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{
		{MetricName: name, TargetSizeFloat: target, TargetSize: whole(target)},
	}}, nil
}

// StreamMetricSpec sends the specification once: it changes with the metadata only, and KEDA then
// opens another stream.
func (s *scaler) StreamMetricSpec(ref *externalscaler.ScaledObjectRef,
	stream grpc.ServerStreamingServer[externalscaler.GetMetricSpecResponse]) error {
	spec, err := s.GetMetricSpec(stream.Context(), ref)
	if err != nil {
		return err
	}
	if err := stream.Send(spec); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-s.watcher.stopping:
		return nil
	}
}

// GetMetrics answers with one value: the operator adds up what it gets.
func (s *scaler) GetMetrics(_ context.Context,
	r *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	t, err := s.trigger(r.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	value, err := s.value(&t)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{
		{MetricName: r.GetMetricName(), MetricValueFloat: value, MetricValue: whole(value)},
	}}, nil
}

// IsActive is the activation of a poll.
func (s *scaler) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	t, err := s.trigger(ref)
	if err != nil {
		return nil, err
	}
	value, err := s.value(&t)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: value > t.Activation}, nil
}

// StreamIsActive sends the activation at once, at each crossing, and true again while it lasts. A
// metric that is absent sends nothing: the stream is kept for its first sample. So does a process that is
// not ready. At the end of the process the stream ends without an error: after one, the operator waits
// up to a minute before it opens another.
func (s *scaler) StreamIsActive(ref *externalscaler.ScaledObjectRef,
	stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	t, err := metadata(ref)
	if err != nil {
		return err
	}
	if started, err := s.awaitStart(stream.Context()); !started {
		return err
	}
	asked, err := s.source.Ask(t.Question)
	if err != nil {
		return fault(&t, err)
	}
	w := s.watcher.add(&t, asked)
	defer s.watcher.remove(w)
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.watcher.stopping:
			return nil
		case active := <-w.news:
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: active}); err != nil {
				return err
			}
			s.count.sent(active)
		}
	}
}

// lookForStartEvery is the time between two questions whether the process is ready.
const lookForStartEvery = 100 * time.Millisecond

// awaitStart waits until the process can answer. It returns false at the end of the stream or of the
// process.
func (s *scaler) awaitStart(ctx context.Context) (started bool, err error) {
	for {
		if ready, _ := s.ready(); ready {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.watcher.stopping:
			return false, nil
		case <-time.After(lookForStartEvery):
		}
	}
}

// trigger reads the metadata, once the process can answer.
func (s *scaler) trigger(ref *externalscaler.ScaledObjectRef) (trigger.Trigger, error) {
	if ready, why := s.ready(); !ready {
		return trigger.Trigger{}, status.Errorf(codes.Unavailable, "Sluice is starting: %s", why)
	}
	return metadata(ref)
}

func metadata(ref *externalscaler.ScaledObjectRef) (trigger.Trigger, error) {
	t, err := trigger.Parse(ref.GetNamespace(), ref.GetScalerMetadata())
	if err != nil {
		// On one line: an Event is one.
		return t, status.Errorf(codes.InvalidArgument, "metadata of the trigger: %s",
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return t, nil
}

// value is the present value of a trigger.
func (s *scaler) value(t *trigger.Trigger) (float64, error) {
	asked, err := s.source.Ask(t.Question)
	if err != nil {
		return 0, fault(t, err)
	}
	value, err := valueOf(asked, t.AbsentIsZero)
	if err != nil {
		return 0, fault(t, err)
	}
	return finite(value.Float64()), nil
}

// valueOf is the value of a question. absentIsZero: of what has no series, or observed nothing, it is 0; not of what
// is unknown, such as a rule that lacks one of its operands, which says nothing of the work there is.
func valueOf(asked Asked, absentIsZero bool) (metric.Number, error) {
	value, err := asked.Value()
	if absentIsZero && errors.Is(err, metric.ErrNotFound) && !errors.Is(err, metric.ErrUnknown) {
		return metric.Number{}, nil
	}
	return value, err
}

// fault turns the error of a trigger's query into one of gRPC.
func fault(t *trigger.Trigger, err error) error {
	switch {
	case errors.Is(err, metric.ErrUnknown), errors.Is(err, metric.ErrNotFound) && t.AbsentIsZero:
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, metric.ErrNotFound):
		return status.Errorf(codes.NotFound, `%v; with absent: "0" it would read 0`, err)
	case errors.Is(err, metric.ErrInvalidQuery):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, metric.ErrForbidden):
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// finite is what KEDA understands: it takes anything below 0, NaN and infinities for 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}

// whole is a value for KEDA before 2.17, which knows whole numbers only: rounded up, as the
// autoscaler rounds.
func whole(v float64) int64 { return int64(min(math.Ceil(v), math.MaxInt64/2)) }
