package loadtest

import "strings"

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
