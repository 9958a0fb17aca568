package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// address is that of a server. host is the host:port by which it was configured: its certificate has that name.
type address struct{ dial, host string }

// servers are the addresses of the servers, of which the agent has chosen one.
type servers struct {
	mu     sync.Mutex // guards the fields below
	all    []address
	looked time.Time
	chosen address
	bad    address // of the last connection that failed
}

const (
	lookWithin = 2 * time.Second
	// visitWithin bounds the wait, at random, between two visits to servers that are away.
	visitWithin = 4 * time.Second
)

// lookUp looks up the addresses, if that was not done lately. An address that cannot be looked up now is as it was before.
func (s *servers) lookUp(ctx context.Context, names string, every time.Duration) ([]address, error) {
	s.mu.Lock()
	before, fresh := s.all, !s.looked.IsZero() && time.Since(s.looked) < every
	s.mu.Unlock()
	if fresh {
		return before, nil
	}
	var all []address
	var fault error
	for _, name := range strings.Split(names, ",") {
		name = strings.TrimSpace(name)
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found := []string{host}
		if net.ParseIP(host) == nil {
			within, end := context.WithTimeout(ctx, lookWithin)
			found, err = net.DefaultResolver.LookupHost(within, host)
			end()
		}
		if err != nil {
			fault = fmt.Errorf("the server's name cannot be looked up: %w", err)
			for _, known := range before {
				if known.host == name {
					all = append(all, known)
				}
			}
		}
		for _, one := range found {
			all = append(all, address{net.JoinHostPort(one, port), name})
		}
	}
	if len(all) == 0 {
		return nil, fault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.looked = all, time.Now()
	return all, nil
}

// pick chooses a server at random, but not the one whose connection has just ended, if there are others.
func (s *servers) pick(ctx context.Context, names string) (to address, several bool, err error) {
	all, err := s.lookUp(ctx, names, 0)
	if err != nil {
		return to, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if others := without(all, s.bad); len(others) > 0 {
		s.chosen = others[rand.IntN(len(others))]
	} else {
		s.chosen = all[0]
	}
	return s.chosen, len(all) > 1, nil
}

// ended notes the end of a connection. asked: the server asked for another one, of the same agent.
func (s *servers) ended(to address, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad = to; asked {
		s.bad = address{}
	}
}

// other returns one of the servers that were not chosen, at random; not ok: there is none.
func (s *servers) other(ctx context.Context, names string) (to address, ok bool) {
	all, err := s.lookUp(ctx, names, visitWithin)
	if err != nil {
		return to, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all = without(all, s.chosen); len(all) == 0 {
		return to, false
	}
	return all[rand.IntN(len(all))], true
}

func without(all []address, one address) []address {
	return slices.DeleteFunc(slices.Clone(all), func(a address) bool { return a.dial == one.dial })
}

// visit tells servers that the agent has left the rest of what they were sent, as soon as they are back.
func (l *Link) visit(until context.Context) {
	lost := uint64(0)
	for {
		wait := time.NewTimer(time.Duration(rand.Int64N(int64(visitWithin)))) // full jitter
		select {
		case <-wait.C:
		case <-until.Done():
			wait.Stop()
			return
		}
		if l.connected.Load() && (l.collector.owed(time.Now()) || l.handsOver()) {
			if to, ok := l.servers.other(until, l.cfg.Server); ok {
				l.visitOne(until, to)
			}
		}
		if now := l.collector.lost.Load(); now > lost {
			l.log.Error("samples are lost: the server that was sent them has acknowledged nothing for an hour, or no memory was left for them", "samples", now-lost)
			lost = now
		}
	}
}

// visitOne tells one server the rest of its run, if there is one.
func (l *Link) visitOne(until context.Context, to address) {
	s, err := l.open(until, to, silentAfter, true)
	if err != nil {
		return // it is still away
	}
	defer s.close()
	switch {
	case !l.collector.waits(s.run):
		s.handOverAll()
	case s.tellRest() == nil:
		l.log.Info("told a former server the rest", "server", to.dial, "name", s.run.name)
	}
}
