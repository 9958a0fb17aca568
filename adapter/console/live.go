package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

const (
	// recheck is the longest interval at which content is made again, with the rights of that moment.
	recheck = 30 * time.Second
	// plotEvery is the interval of new values of plots.
	plotEvery = time.Second
	// firstValues is the interval of looks for the first values of plots, which are recorded at once.
	firstValues = 50 * time.Millisecond
	// beatEvery is the longest time in which a stream sends nothing.
	beatEvery = 5 * time.Second
	// renderDuty bounds the share of a core that the following of one page takes.
	renderDuty = 20
)

// stream sends server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html):
// "content" is the page's content, when it has changed; "plot" values of a plot; "beat" that the server
// is there.
type stream struct {
	server *Server
	w      http.ResponseWriter
	sent   []byte           // the last content
	plots  []plot           // of the last content
	last   map[string]int64 // second of the newest sent value of each plot
	wrote  time.Time
}

// follow serves the stream of a page. Each part of it is made with the rights of the moment.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, p *page) {
	ctx, c, q := r.Context(), credentialOf(r), r.URL.Query()
	if _, err := s.admit(ctx, c, p.scope(q)); err != nil { // before it has one of the streams
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	from := connlimit.Prefix(r.RemoteAddr)
	if !s.streams.Take(from, 1) {
		http.Error(w, fmt.Sprintf("%d pages follow changes, %d of them from this address, and no more may", s.streams.Held(), s.streams.Of(from)),
			http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Give(from, 1)
	one := stream{server: s, w: w, last: map[string]int64{}}
	if err := s.answers(p); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(plotEvery)
	defer tick.Stop()
	hurries := int(plotEvery / firstValues)
	for due := (time.Time{}); ; {
		now := time.Now()
		if !now.Before(due) {
			if s.answers(p) != nil {
				return // the page comes again, as after an end of the server
			}
			made, err := s.render(ctx, c, q, p)
			if err != nil {
				_ = one.send("end", []byte(err.Error()))
				return
			}
			one.plots = made.plots
			if one.content(made.text) != nil {
				return
			}
			due = now.Add(min(max(p.every, max(p.duty, renderDuty)*time.Since(now)), recheck))
		}
		if one.values() != nil {
			return
		}
		if time.Since(one.wrote) >= beatEvery && one.send("beat", []byte("1")) != nil {
			return
		}
		var soon <-chan time.Time
		if len(one.last) < len(one.plots) && hurries > 0 {
			hurries--
			soon = time.After(firstValues)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
			return
		case <-tick.C:
		case <-soon:
		}
	}
}

// content sends the content if it has changed.
func (s *stream) content(now []byte) error {
	if bytes.Equal(now, s.sent) {
		return nil
	}
	s.sent = now
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(string(now)); err != nil {
		return err
	}
	return s.send("content", bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}

// values sends new values of the plots: all that are kept at first.
func (s *stream) values() error {
	for i := range s.plots {
		p := &s.plots[i]
		m, ok := p.values(s.server.history, s.last[p.ID])
		if !ok {
			continue
		}
		s.last[p.ID] = m.Last
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := s.send("plot", text); err != nil {
			return err
		}
	}
	return nil
}

// send sends an event of one line.
func (s *stream) send(event string, data []byte) error {
	return s.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, bytes.ReplaceAll(data, []byte("\n"), []byte(" "))))
}

func (s *stream) write(text []byte) error {
	s.wrote = time.Now()
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return control.Flush()
}
