package adapter

import (
	"context"
	"unsafe"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
)

// Answers about usage are large answers (answerqueue.go): they count as the points that would take as
// much memory, until they are written.

// Memory in an answer, in bytes: of a pod or a node with its row of a table, of each container, and
// of labels, by a byte of their text or by label.
const (
	objectBytes, servedBytes, derivedBytes = 1 << 10, 800, 2000
	labelFactor, labelBytes                = 4, 64
)

const pointBytes = int(unsafe.Sizeof(metric.Point{}))

// admitPods selects pods for an answer, and returns them once it may be made. The caller calls made
// when it has made it.
func (s usageStorage) admitPods(ctx context.Context, containerBytes int, selected func() []usage.Pod) (pods []usage.Pod,
	made func(), err error) {
	sizeOf := func(pods []usage.Pod) int { return s.sizeOf(pods, containerBytes) }
	return admitUsage(ctx, sizeOf, func() ([]usage.Pod, error) { return selected(), nil })
}

// sizeOf is the memory of an answer about pods, in bytes.
func (s usageStorage) sizeOf(pods []usage.Pod, containerBytes int) (bytes int) {
	for i := range pods {
		bytes += objectBytes + labelFactor*pods[i].LabelBytes + containerBytes*len(s.source.Containers(&pods[i]))
	}
	return bytes
}

// admitNodes is admitPods for nodes.
func admitNodes(ctx context.Context, containerBytes int, selected func() ([]UsedNode, error)) (nodes []UsedNode, made func(), err error) {
	return admitUsage(ctx, func(nodes []UsedNode) (bytes int) {
		for i := range nodes {
			bytes += objectBytes + labelBytes*len(nodes[i].Labels) + containerBytes
		}
		return bytes
	}, selected)
}

// admitUsage waits until an answer may be made, without the objects: many answers may wait.
func admitUsage[T any](ctx context.Context, sizeOf func([]T) int, selected func() ([]T, error)) (all []T, made func(), err error) {
	if all, err = selected(); err != nil {
		return nil, nil, err
	}
	t, points := ticketOf(ctx), sizeOf(all)/pointBytes
	waits := points > valuelist.MaxSmall
	if waits {
		all = nil
	}
	if err = t.admit(ctx, points); err == nil && waits {
		all, err = selected()
	}
	return all, func() { t.keep(points) }, err
}
