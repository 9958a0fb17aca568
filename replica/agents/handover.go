package agents

import (
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// maxHistories bounds the parts of a history that wait for an agent: it hears them between two frames.
	maxHistories = 4
	// maxHistory bounds a part. Agents make parts of 1 MiB.
	maxHistory = 2 << 20
)

// history passes what an agent that ends knows of usage on to the node's next agent, if this server hears that.
func (t *stream) history(h *agentwire.History) error {
	if n := proto.Size(h); n > maxHistory {
		return status.Errorf(codes.InvalidArgument, "a part of a history has %d bytes; must have at most %d", n, maxHistory)
	}
	taken := false
	if next := t.server.nextAgent(t); next != nil {
		select {
		case next.histories <- h:
			taken = true
		default:
		}
	}
	answer := &agentwire.FromServer_HistoryTaken{HistoryTaken: &agentwire.HistoryTaken{Taken: taken}}
	return t.grpc.Send(&agentwire.FromServer{Message: answer})
}

// nextAgent returns the newest stream on which another agent of the node reports; nil: there is none.
func (s *Server) nextAgent(of *stream) (next *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		t := r.stream
		if t == nil || t.node != of.node || t.feed == of.feed || t.rest {
			continue
		}
		if next == nil || t.began.After(next.began) {
			next = t
		}
	}
	return next
}

func (t *stream) tellHistory(h *agentwire.History) error {
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_History{History: h}})
}
