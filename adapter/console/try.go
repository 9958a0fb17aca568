package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// maxTried bounds the text of lines to try, in bytes: it is a part of the address.
const maxTried = 4096

// tryContent is the page that says what would happen to StatsD lines. Nothing is applied.
type tryContent struct {
	Lines, Sender string
	Cluster       bool
	Outcomes      []Outcome
}

func (s *Server) try(ctx context.Context, r *request) (any, error) {
	c := &tryContent{Lines: r.query.Get("line"), Sender: strings.TrimSpace(r.query.Get("sender")),
		Cluster: s.parts.Facts != nil}
	if len(c.Lines) > maxTried {
		return nil, &refusal{status: http.StatusRequestURITooLong, text: "the lines are too long to try: at most 4096 bytes"}
	}
	if lines := strings.TrimSpace(c.Lines); lines != "" {
		c.Outcomes = s.parts.Try([]byte(lines), c.Sender, r.sees(ctx, namespaceOfSender(r.query)))
	}
	return c, nil
}

// sees returns a function that reports whether the client may see a namespace (empty: all of them), beside the one that
// the request was admitted for. It asks about each once, and no more once there was no answer.
func (r *request) sees(ctx context.Context, admitted string) func(namespace string) bool {
	known, away := map[string]bool{admitted: true}, false
	return func(namespace string) bool {
		if _, asked := known[namespace]; !asked && !r.wide && !away {
			right := metric.Right{Verb: metric.Get, Namespace: namespace}
			allowed, err := r.server.parts.Access.May(ctx, r.who, right)
			known[namespace], away = allowed && err == nil, err != nil
		}
		return r.wide || known[namespace]
	}
}

// namespaceOfSender is the namespace of the sender to try: of a pod or a service account.
func namespaceOfSender(q url.Values) string {
	sender := strings.TrimSpace(q.Get("sender"))
	if account, ok := strings.CutPrefix(sender, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return namespace
	}
	namespace, _, isPod := strings.Cut(sender, "/")
	if !isPod {
		return ""
	}
	return namespace
}

// tryAgain is the address at which the rejected line is tried, as its sender; empty: the line isn't
// remembered as a whole, or with a secret masked.
func tryAgain(rejection *inspect.Rejection) string {
	if rejection.Example == "" || strings.HasSuffix(rejection.Example, "...") || strings.Contains(rejection.Example, "***") {
		return ""
	}
	sender := rejection.Sender
	if rejection.Namespace != "" {
		sender = rejection.Namespace + "/" + rejection.Sender
	}
	return address("try", "line", rejection.Example, "sender", sender)
}
