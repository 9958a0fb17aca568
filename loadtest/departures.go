package loadtest

import "strings"

// departures are the flags by which a run differs from the one that the aims are for. More lines
// than the scenario's are no departure.
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

// about describes the run with its sizes.
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

// withAims removes the aims from figures of a run that departs from the scenario.
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
