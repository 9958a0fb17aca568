package keda

import (
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// keptMessages are those of the open streams, which hold their metadata as long as they last. Of all namespaces, one has
// at most three times what is left, of the bytes and of the streams: its author writes any number of triggers, and each
// as long as a message may be.
type keptMessages struct {
	mu      sync.Mutex // guards the rest
	bytes   fair.Shares[string, int64]
	streams fair.Shares[string, int]
}

// take keeps a message of n bytes, or says why not.
func (k *keptMessages) take(namespace string, n int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.bytes.Held()+n > mostKept:
		return status.Errorf(codes.ResourceExhausted, "the metadata of open streams has %d bytes (the limit)", mostKept)
	case n > k.bytes.More(namespace, mostKept), k.streams.More(namespace, mostStreams) < 1:
		return status.Errorf(codes.ResourceExhausted, "namespace %q has %d streams open, with %d bytes of metadata, and must leave some to others",
			namespace, k.streams.Of(namespace), k.bytes.Of(namespace))
	}
	k.bytes.Add(namespace, n)
	k.streams.Add(namespace, 1)
	return nil
}

func (k *keptMessages) give(namespace string, n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes.Add(namespace, -n)
	k.streams.Add(namespace, -1)
}

// held are the bytes of all.
func (k *keptMessages) held() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes.Held()
}
