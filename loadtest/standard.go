package loadtest

import "strings"

// departures are in what the run is not the one that the aims were set for, as flags. More lines than the scenario
// thinks enough are as good.
func (c Config) departures(s Scenario) (flags []string) {
	for _, one := range []struct {
		flag    string
		departs bool
	}{
		{"--short", c.Short},
		{"--lines", c.Lines > 0 && c.Lines < s.Lines},
		{"--rate", c.Rate > 0 && c.Rate != s.Rate},
	} {
		if one.departs {
			flags = append(flags, one.flag)
		}
	}
	return flags
}

// about says what is done, with the sizes that it is done in.
func (c Config) about(s Scenario) string {
	about := s.About
	if c.Short && s.ShortAbout != "" {
		about = s.ShortAbout
	}
	if c.Rate > 0 && !s.SendsLines() { // the head of a load has its rate
		about += ", at " + grouped(float64(c.Rate)) + " lines/s"
	}
	return about
}

// judged takes the aims away from figures of another run than they were set for: met or missed, it would say nothing.
func (m *measurement) judged(figures []Figure) []Figure {
	if len(m.departures) == 0 {
		return figures
	}
	for i := range figures {
		if figures[i].Aim != (Aim{}) {
			m.note("No figure is held against an aim: aims are for the scenario as it stands, without %s.", strings.Join(m.departures, ", "))
		}
		figures[i].Aim = Aim{}
	}
	return figures
}
