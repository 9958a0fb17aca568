package console

import (
	"context"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// sendersContent is the page of those who push to the replica that answers.
type sendersContent struct {
	Namespace   string
	Rows        []inspect.Sender
	First, Next string
}

func (s *Server) senders(_ context.Context, r *request) (any, error) {
	c := &sendersContent{Namespace: r.query.Get("namespace")}
	var err error
	c.Rows, c.First, c.Next, err = pageOf(r, "senders", "senders", c.Namespace, r.source.Senders)
	return c, err
}

// groupsContent is the page of the groups of the Pushgateway API.
type groupsContent struct {
	Namespace   string
	Rows        []groupRow
	Failed      int // of the rows
	MayDelete   bool
	First, Next string
}

type groupRow struct {
	inspect.PushedGroup
	Address string // of the page that deletes it, or has the command
}

func (s *Server) groups(ctx context.Context, r *request) (any, error) {
	c := &groupsContent{Namespace: r.query.Get("namespace")}
	page, first, next, err := pageOf(r, "groups", "groups", c.Namespace, r.source.Groups)
	if err != nil {
		return nil, err
	}
	c.First, c.Next = first, next
	// One question for all rows; the page of a group asks about that group.
	if c.MayDelete, err = s.mayDelete(ctx, r, &inspect.PushedGroup{Namespace: c.Namespace}); err != nil {
		return nil, err
	}
	for _, group := range page {
		row := groupRow{group, address(deletePath, "namespace", group.Namespace, "group", groupPath(&group))}
		if group.Fault() != "" {
			c.Failed++
		}
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

// groupPath is the path of a group in the Pushgateway API.
func groupPath(g *inspect.PushedGroup) string {
	path := "/metrics" + groupPair("job", g.Job)
	for _, label := range slices.Sorted(maps.Keys(g.Labels)) {
		path += groupPair(label, g.Labels[label])
	}
	return path
}

// groupPair encodes a label as the Pushgateway's clients do: in base64 where a path can't have the value. Of dots curl
// would make the path of another group.
func groupPair(label, value string) string {
	if value == "" {
		return "/" + label + "@base64/="
	}
	if strings.Contains(value, "/") || value == "." || value == ".." {
		return "/" + label + "@base64/" + base64.RawURLEncoding.EncodeToString([]byte(value))
	}
	return "/" + label + "/" + url.PathEscape(value)
}

// replicasContent is the page of the other replicas.
type replicasContent struct {
	Known  int
	Others []Replica
	Faults int // of Others
	// Away says what is missing from lists, a sentence each.
	Away []string
}

func (s *Server) replicas(_ context.Context, r *request) (any, error) {
	health := s.parts.Health()
	c := &replicasContent{Known: health.Replicas, Others: health.Others, Away: r.source.Away()}
	for _, other := range c.Others {
		if other.Fault {
			c.Faults++
		}
	}
	return c, nil
}
