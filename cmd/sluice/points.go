package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agents"
)

// An agent reports to one replica, and has the points of its node. The others ask that replica for them.

// pointsOfNode asks for points of a node's agent, and pointsAnswer has them. Empty: the agent reports to another replica.
type (
	pointsOfNode struct {
		Node  string
		Query usage.PointsQuery
	}
	pointsAnswer struct {
		All   []usage.ContainerPoints
		Fault string
		// Invalid: the fault is the question's.
		Invalid bool
	}
)

// answerPoints answers another replica; nil: the agent does not report to this one.
func (u *clusterUsage) answerPoints(question string) *pointsAnswer {
	var of pointsOfNode
	if json.Unmarshal([]byte(question), &of) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pointsElsewhereWithin)
	defer cancel()
	all, err := u.ownPoints(ctx, of.Node, &of.Query)
	switch {
	case errors.Is(err, agents.ErrNoAgent):
		return nil
	case err != nil:
		return &pointsAnswer{Fault: err.Error(), Invalid: errors.Is(err, metric.ErrInvalidQuery)}
	}
	return &pointsAnswer{All: all}
}

// pointsElsewhere asks the other replicas for points of a node's agent.
func (p *dataPath) pointsElsewhere(ctx context.Context, node string, query *usage.PointsQuery) ([]usage.ContainerPoints, error) {
	others := p.replication.others
	if others == nil {
		return nil, agents.ErrNoAgent
	}
	question, _ := json.Marshal(pointsOfNode{node, *query}) // plain text and numbers
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, text := range others.ask(ctx, others.heard(), append([]byte(pointsQuestion), question...)) {
		var answer *pointsAnswer
		if json.Unmarshal(text, &answer) != nil || answer == nil {
			continue
		}
		switch {
		case answer.Invalid:
			return nil, metric.InvalidQueryf("%s", answer.Fault)
		case answer.Fault != "":
			return nil, errors.New(answer.Fault)
		}
		return answer.All, nil
	}
	return nil, agents.ErrNoAgent
}
