package loadtest

import "strings"

// departures returns the flags by which a run differs from the standard run, which the aims apply
// to. More lines than the scenario's default are no departure.
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

// about describes the run, with the run's own sizes and rate.
func (c Config) about(s Scenario) string {
	about := s.About
	if c.Short && s.ShortAbout != "" {
		about = s.ShortAbout
	}
	if c.Rate > 0 && !s.SendsLines() { // the table's heading shows the rate of a load of lines
		about += ", at " + grouped(float64(c.Rate)) + " lines/s"
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
