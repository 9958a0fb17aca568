package agents

import (
	"context"
	"errors"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// The agent of a node has the points of which windows are made. A server asks it for some on its stream.

// pointsQuestion is a question of a reader, who waits for the answer until ctx ends.
type pointsQuestion struct {
	ctx    context.Context
	query  *usage.PointsQuery
	answer chan *agentwire.Points // holds one; nil: it is not asked
}

// maxQuestions bounds the questions to an agent that have no answer.
const maxQuestions = 16

// ErrNoAgent: no agent of the node that keeps usage reports to this server.
var ErrNoAgent = errors.New("no agent of the node reports to this server")

// ErrBusy: as many questions as may be wait for the answer of the node's agent.
var ErrBusy = errors.New("the agent of the node has too many questions to answer")

// Points asks the agent of a node for points. The error is ErrNoAgent, ErrBusy, usage.ErrTooManyPoints or that of ctx.
func (s *Server) Points(ctx context.Context, node string, query *usage.PointsQuery) ([]usage.ContainerPoints, error) {
	t := s.keeperOf(node)
	if t == nil {
		return nil, ErrNoAgent
	}
	q := pointsQuestion{ctx, query, make(chan *agentwire.Points, 1)}
	select {
	case t.questions <- q:
	case <-t.ended:
		return nil, ErrNoAgent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case answer := <-q.answer:
		if answer == nil {
			return nil, ErrBusy
		}
		return answer.All()
	case <-t.ended:
		return nil, ErrNoAgent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keeperOf returns the newest stream of a node's agents that keep usage; nil: there is none.
func (s *Server) keeperOf(node string) (newest *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if t := r.stream; t != nil && t.node == node && t.keeps && (newest == nil || t.began.After(newest.began)) {
			newest = t
		}
	}
	return newest
}

// askPoints asks the agent. A question whose reader has gone makes room for the next one.
func (t *stream) askPoints(q pointsQuestion) error {
	for number, other := range t.asked {
		if other.ctx.Err() != nil {
			delete(t.asked, number)
		}
	}
	if len(t.asked) >= maxQuestions {
		q.answer <- nil
		return nil
	}
	t.lastAsked++
	t.asked[t.lastAsked] = q
	question := agentwire.NewPointsQuestion(t.lastAsked, q.query)
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_PointsQuestion{PointsQuestion: question}})
}

// pointsCame hands an answer to its reader. That of a question whose reader has gone is dropped.
func (t *stream) pointsCame(p *agentwire.Points) {
	if q, waits := t.asked[p.Number]; waits {
		delete(t.asked, p.Number)
		q.answer <- p
	}
}
