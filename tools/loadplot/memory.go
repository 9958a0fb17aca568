package main

import (
	"fmt"
	"slices"
)

// fewSeries is the number of series below which memory is that of an idle server.
const fewSeries = 1000

// drawMemory draws the resident memory of each server, idle and by number of series; "" without
// figures.
func drawMemory(all entries) string {
	lines := all.ofLines().where(func(e entry) bool { return e.Columns[resident].Median > 0 })
	groups := memoryGroups(lines)
	if len(groups) == 0 {
		return ""
	}
	class := classes(lines.servers())
	p := newPicture(memoryClaim(groups[len(groups)-1]))
	var rows []dotRow
	for _, g := range groups {
		for i, m := range g.servers {
			row := dotRow{name: m.label, class: class[m.server], values: []float64{m.mebibytes}, written: mebibytes(m.mebibytes)}
			if i == 0 {
				row.head = g.title()
			}
			rows = append(rows, row)
		}
	}
	dotPlot{p, 218, 530, mebibytes}.draw(rows)
	p.caption("Resident memory of all of a server's processes: anonymous memory and mapped files. " +
		"The scale is logarithmic.")
	return p.svg()
}

// memoryGroup is the memory of servers with an equal number of series.
type memoryGroup struct {
	series  int // 0: idle
	servers []serverMemory
}

type serverMemory struct {
	server, label string
	mebibytes     float64
}

func (g memoryGroup) title() string {
	if g.series == 0 {
		return "just after the start"
	}
	return number(float64(g.series), 0) + " series"
}

// memoryGroups returns the idle servers, and then the servers by number of series.
func memoryGroups(lines entries) (groups []memoryGroup) {
	idle := memoryGroup{}
	for _, server := range lines.servers() {
		if v := lines.of(server)[0].Columns[residentIdle].Median; v > 0 {
			idle.servers = append(idle.servers, serverMemory{server, shown(server), v})
		}
	}
	if len(idle.servers) > 0 {
		groups = append(groups, idle)
	}
	numbers := distinct(lines, func(e entry) int { return e.Load.Series })
	slices.Sort(numbers)
	for _, series := range numbers {
		if series >= fewSeries {
			groups = append(groups, lines.where(func(e entry) bool { return e.Load.Series == series }).memory(series))
		}
	}
	return groups
}

// memory returns the memory of each server, in the first scenario that the server took. A scenario
// other than the first server's is named.
func (all entries) memory(series int) memoryGroup {
	group := memoryGroup{series: series}
	for _, server := range all.servers() {
		e := all.of(server)[0]
		label := shown(server)
		if e.Name != all[0].Name {
			label += " (" + e.Name + ")"
		}
		group.servers = append(group.servers, serverMemory{server, label, e.Columns[resident].Median})
	}
	return group
}

// memoryClaim compares Sluice with the smallest peer.
func memoryClaim(most memoryGroup) string {
	ours, peer := serverMemory{}, serverMemory{}
	for _, m := range most.servers {
		switch {
		case m.server == sluice:
			ours = m
		case peer.server == "" || m.mebibytes < peer.mebibytes:
			peer = m
		}
	}
	switch {
	case ours.server == "":
		return "Resident memory, by number of series"
	case peer.server == "":
		return fmt.Sprintf("%s: Sluice takes %s", most.title(), mebibytes(ours.mebibytes))
	}
	return fmt.Sprintf("%s: Sluice takes %s, %s %s",
		most.title(), mebibytes(ours.mebibytes), peer.server, mebibytes(peer.mebibytes))
}
