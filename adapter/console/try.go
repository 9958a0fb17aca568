package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// maxTried bounds the text of lines to try, in bytes: it is a part of the address.
const maxTried = 4096

// tryContent is the page that says what would happen to StatsD lines. Nothing is applied.
type tryContent struct {
	Lines, Sender string
	Cluster       bool
	Outcomes      []Outcome
}

func (s *Server) try(_ context.Context, r *request) (any, error) {
	c := &tryContent{Lines: r.query.Get("line"), Sender: strings.TrimSpace(r.query.Get("sender")),
		Cluster: s.parts.Facts != nil}
	if len(c.Lines) > maxTried {
		return nil, &refusal{status: http.StatusRequestURITooLong, text: "the lines are too long to try: at most 4096 bytes"}
	}
	if lines := strings.TrimSpace(c.Lines); lines != "" {
		c.Outcomes = s.parts.Try([]byte(lines), c.Sender)
	}
	return c, nil
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
// remembered as a whole.
func tryAgain(rejection *inspect.Rejection) string {
	if rejection.Example == "" || strings.HasSuffix(rejection.Example, "...") {
		return ""
	}
	sender := rejection.Sender
	if rejection.Namespace != "" {
		sender = rejection.Namespace + "/" + rejection.Sender
	}
	return address("try", "line", rejection.Example, "sender", sender)
}
