package main

import (
	"context"
	"errors"

	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// groupDeleter implements console.Deleter: the resolver decides, as about a DELETE of HTTP push with the same token.
type groupDeleter struct {
	path *dataPath
	asks *credential.Authenticator // nil: there is no cluster
}

// MayDelete implements console.Deleter. A right that nobody has asked for yet is asked for once.
func (d groupDeleter) MayDelete(ctx context.Context, who *metric.Principal, g *inspect.PushedGroup) (bool, error) {
	about, from := d.about(g), metric.Sender{Principal: who, Known: true}
	reason, _, needs := d.path.resolver.May(&from, metric.Delete, about)
	if who == nil || reason != metric.Pending || needs.IsZero() {
		return reason == metric.Applied, nil
	}
	if known, ok := who.Rights.(*credential.Principal); ok {
		if err := d.asks.CheckRights(ctx, known, needs); err != nil {
			return false, errors.Join(console.ErrUnavailable, err)
		}
	}
	reason, _, _ = d.path.resolver.May(&from, metric.Delete, about)
	return reason == metric.Applied, nil
}

// Delete implements console.Deleter.
func (d groupDeleter) Delete(g *inspect.PushedGroup) bool {
	return d.path.groups.Delete(keyOfGroup(g), d.about(g))
}

// about is the object of a group of a list.
func (d groupDeleter) about(g *inspect.PushedGroup) metric.Object {
	if found, ok := d.path.groups.Find(keyOfGroup(g)); ok {
		return found.Object
	}
	return metric.Object{Namespace: g.Namespace}
}

// keyOfGroup is the key of a group of a list.
func keyOfGroup(g *inspect.PushedGroup) group.Key {
	all := []metric.Label{{Key: "job", Value: g.Job}}
	for key, value := range g.Labels {
		all = append(all, metric.Label{Key: key, Value: value})
	}
	return group.Key{Namespace: g.Namespace, Labels: metric.NewLabels(all)}
}
