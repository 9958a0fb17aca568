package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sluiceName is the name of the Sluice server in reports.
const sluiceName = "sluice"

// Peer is another StatsD server, measured in turn with Sluice under the same load.
type Peer struct {
	Name string `yaml:"name"`
	// Command is the program and the arguments, without a shell. {udp} is the port to listen on,
	// {tcp} a free port, and {config} the path of a copy of Config.
	Command []string `yaml:"command"`
	// Config is the content of a configuration file, with {udp} and {tcp}; empty: none.
	Config string `yaml:"config"`
	// Scenarios are the scenarios of lines that the server understands.
	Scenarios []string `yaml:"scenarios"`
}

// ReadPeers reads a list of peers in YAML or JSON. It returns all faults at once.
func ReadPeers(path string) ([]Peer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	peers, err := parsePeers(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return peers, nil
}

func parsePeers(text []byte) (peers []Peer, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&peers); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(peers) == 0 {
		return nil, errors.New("no peer; must be a list of name, command, config and scenarios")
	}
	var faults []error
	for i, p := range peers {
		for _, fault := range p.faults(peers[:i]) {
			faults = append(faults, fmt.Errorf("peer %d (%q): %w", i+1, p.Name, fault))
		}
	}
	return peers, errors.Join(faults...)
}

// faults returns the faults of a peer that follows others.
func (p Peer) faults(others []Peer) (faults []error) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Name == "" || p.Name == sluiceName {
		wrong("name is %q; must be the name of another server", p.Name)
	}
	if slices.ContainsFunc(others, func(o Peer) bool { return o.Name == p.Name }) {
		wrong("name is %q, as of a peer before; must be unique", p.Name)
	}
	words := strings.Join(p.Command, " ")
	switch {
	case len(p.Command) == 0 || p.Command[0] == "":
		wrong("command is empty; must be a list: the program and the arguments")
	case p.Config == "" && strings.Contains(words, "{config}"):
		wrong("command has {config}, but config is empty; must be the content of the file")
	case p.Config != "" && !strings.Contains(words, "{config}"):
		wrong("config has no effect without {config} in command")
	case !strings.Contains(words+p.Config, "{udp}"):
		wrong("neither command nor config has {udp}, the port to listen on")
	}
	if len(p.Scenarios) == 0 {
		wrong("scenarios is empty; must be one or more scenarios of lines")
	}
	for _, name := range p.Scenarios {
		if s, ok := scenario(name); !ok || !s.SendsLines() {
			wrong("scenario %q is unknown, or has no load of lines", name)
		}
	}
	return faults
}

// takes reports whether a peer understands the lines of a scenario.
func (p Peer) takes(scenario string) bool { return slices.Contains(p.Scenarios, scenario) }

// installedPeers returns the peers whose programs are installed, and a message for each other.
func installedPeers(peers []Peer) (installed []Peer, skipped []string) {
	for _, p := range peers {
		if _, err := exec.LookPath(p.Command[0]); err != nil {
			skipped = append(skipped, fmt.Sprintf("%s is skipped: %v", p.Name, err))
			continue
		}
		installed = append(installed, p)
	}
	return installed, skipped
}

// departures returns the flags by which a run differs from the standard run, which the aims apply
// to. More lines than the default are no departure. A load of lines has aims of its own at each
// rate.
func (c Config) departures(s Scenario, rate int) (flags []string) {
	for _, one := range []struct {
		flag    string
		departs bool
	}{
		{"--short", c.Short},
		{"--lines", c.Lines > 0 && c.Lines < s.lines(rate)},
		{"--rate", len(c.Rates) > 0 && !s.SendsLines()},
	} {
		if one.departs {
			flags = append(flags, one.flag)
		}
	}
	return flags
}

// about describes the run, with the run's own sizes and rate.
func (c Config) about(s Scenario) string {
	about := s.About
	if c.Short && s.ShortAbout != "" {
		about = s.ShortAbout
	}
	if len(c.Rates) > 0 && !s.SendsLines() { // the table's heading shows the rate of a load of lines
		about += ", at " + rateText(c.Rates[0])
	}
	return about
}

// withAims removes the aims from the figures of a run that departs from the standard run.
func (m *measurement) withAims(figures []Figure) []Figure {
	if len(m.departures) == 0 {
		return figures
	}
	for i := range figures {
		if figures[i].Aim != (Aim{}) {
			m.note("Figures have no aims: aims are for the scenario without %s.", strings.Join(m.departures, ", "))
		}
		figures[i].Aim = Aim{}
	}
	return figures
}
