package console

import (
	"context"
	"net/http"
)

// healthContent is the page of the process: the law of accounting, drawn.
type healthContent struct {
	Health
	Ready     bool
	Laws      []law
	Recorded  int
	Following int
	Groups    []GroupUse
}

// law is the account of a receiver: received = applied + rejected + pending.
type law struct {
	Receiver
	Refused uint64
	// Difference is received without applied, rejected and pending. It isn't 0 for a moment while
	// samples come in, because the figures are read one after the other.
	Difference int64
	Parts      []bar
}

// bar is a part of a bar, in percent.
type bar struct{ Class, X, Width string }

func (s *Server) health(context.Context, *request) (any, error) {
	c := &healthContent{Health: s.parts.Health(), Ready: true,
		Recorded: s.history.size(), Following: int(s.streams.Load())}
	if s.parts.Groups != nil {
		c.Groups = s.parts.Groups()
	}
	for _, one := range c.Checks {
		c.Ready = c.Ready && one.Ready
	}
	for _, of := range c.Receivers {
		c.Laws = append(c.Laws, lawOf(of))
	}
	return c, nil
}

// Failed reports whether a request was answered with an error.
func (u Use) Failed() bool { return u.Code >= http.StatusBadRequest }

func lawOf(of Receiver) law {
	l := law{Receiver: of}
	for _, one := range of.Rejected {
		l.Refused += one.Number
	}
	l.Difference = int64(of.Received - of.Applied - l.Refused - of.Pending)
	var before uint64
	for _, part := range []struct {
		class string
		n     uint64
	}{{"applied", of.Applied}, {"rejected", l.Refused}, {"pending", of.Pending}} {
		if part.n > 0 {
			l.Parts = append(l.Parts, bar{part.class, percent(before, of.Received), percent(part.n, of.Received)})
		}
		before += part.n
	}
	return l
}
