package server

import (
	"encoding/json"
	"net/http"
	"time"
)

// Check is one line of /readyz.
type Check struct {
	Name   string
	Ready  bool
	Detail string
}

// readiness bounds the time of a question: a server whose disk stands still answers it too.
var readiness = http.Client{Timeout: 10 * time.Second}

// Checks reads the lines of /readyz, by name.
func (s *Server) Checks() (map[string]Check, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Ops+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := readiness.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct{ Checks []Check }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, err
	}
	named := map[string]Check{}
	for _, c := range all.Checks {
		named[c.Name] = c
	}
	return named, nil
}
