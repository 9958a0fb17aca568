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
	pods = selected()
	points := s.sizeOf(pods, containerBytes) / pointBytes
	if points > valuelist.MaxSmall {
		pods = nil // many answers may wait
	}
	if made, err = admitUsage(ctx, points); err == nil && pods == nil {
		pods = selected()
	}
	return pods, made, err
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
	if nodes, err = selected(); err != nil {
		return nil, nil, err
	}
	bytes := 0
	for i := range nodes {
		bytes += objectBytes + labelBytes*len(nodes[i].Labels) + containerBytes
	}
	points := bytes / pointBytes
	if points > valuelist.MaxSmall {
		nodes = nil // many answers may wait
	}
	if made, err = admitUsage(ctx, points); err == nil && nodes == nil {
		nodes, err = selected()
	}
	return nodes, made, err
}

func admitUsage(ctx context.Context, points int) (made func(), err error) {
	t := ticketOf(ctx)
	return func() { t.keep(points) }, t.admit(ctx, points)
}
