package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// report is the shown part of a load test's JSON.
type report struct {
	Version string `json:"version"`
	Machine struct {
		CPUs   int     `json:"cpus"`
		Kernel string  `json:"kernel"`
		Load   float64 `json:"load_average"`
		Pinned bool    `json:"pinned"`
		Buffer int     `json:"socket_buffer_bytes"`
	} `json:"machine"`
	Entries entries `json:"scenarios"`
}

// entry is the result of one server in one scenario at one rate.
type entry struct {
	Name    string            `json:"scenario"`
	Server  string            `json:"server"`
	About   string            `json:"about"`
	Short   bool              `json:"short"`
	Load    *load             `json:"load"`
	Columns map[string]spread `json:"columns"`
	Figures []figure          `json:"figures"`
}

type load struct {
	Series      int   `json:"series"`
	Lines       int64 `json:"lines_per_run"`
	PerDatagram int   `json:"lines_per_datagram"`
	Rate        int   `json:"rate_lines_per_second"` // 0: flat out
}

type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Aim  *struct {
		Most  float64 `json:"most"`
		Least float64 `json:"least"`
	} `json:"aim"`
	spread
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// sluice is the name of the server that the others are compared with.
const sluice = "sluice"

// Columns of an entry.
const (
	cpuPerLine    = "cpu_ns_per_line"
	gathering     = "floor_ns_per_line"
	blocking      = "blocking_floor_ns_per_line"
	takenRate     = "taken_lines_per_second"
	resident      = "resident_mib"
	residentIdle  = "idle_resident_mib"
	droppedGrams  = "dropped_datagrams"
	busyProcessor = "busy"
)

func readReport(path string) (r report, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return report{}, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return report{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Entries) == 0 {
		return report{}, fmt.Errorf("%s has no scenarios; must be a report of sluice-loadtest -o json", path)
	}
	return r, nil
}

// circumstances describes the version and the machine.
func (r report) circumstances() string {
	pinned := "not pinned"
	if r.Machine.Pinned {
		pinned = "server and sender pinned to one each"
	}
	return fmt.Sprintf("Measured by %s, %d processors (%s), Linux %s, socket buffer %d KiB, load average before %.2f",
		r.Version, r.Machine.CPUs, pinned, r.Machine.Kernel, r.Machine.Buffer>>10, r.Machine.Load)
}

// title returns the scenario. The title of a short run differs, so that short runs are shown apart.
func (e entry) title() string {
	if e.Short {
		return e.Name + " (short)"
	}
	return e.Name
}

// ofLines reports whether the entry has the cost of a line.
func (e entry) ofLines() bool { return e.Load != nil && len(e.Columns) > 0 }

// lost returns the share of lines that the kernel dropped.
func (e entry) lost() float64 {
	if e.Load.Lines == 0 {
		return 0
	}
	return e.Columns[droppedGrams].Median * float64(e.Load.PerDatagram) / float64(e.Load.Lines)
}

// entries are the entries of all reports.
type entries []entry

// where returns the entries that a condition holds for.
func (all entries) where(is func(entry) bool) (some entries) {
	for _, e := range all {
		if is(e) {
			some = append(some, e)
		}
	}
	return some
}

func (all entries) ofLines() entries { return all.where(entry.ofLines) }

// of returns the entries of a server.
func (all entries) of(server string) entries {
	return all.where(func(e entry) bool { return e.Server == server })
}

// at returns the entries at a rate.
func (all entries) at(rate int) entries {
	return all.where(func(e entry) bool { return e.Load.Rate == rate })
}

// titled returns the entries of a scenario.
func (all entries) titled(title string) entries {
	return all.where(func(e entry) bool { return e.title() == title })
}

// titles returns the scenarios in the order of the reports.
func (all entries) titles() []string { return distinct(all, entry.title) }

// servers returns the servers, Sluice first and the others in the order of the reports.
func (all entries) servers() []string {
	names := distinct(all, func(e entry) string { return e.Server })
	if i := slices.Index(names, sluice); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, sluice)
	}
	return names
}

// rates returns the rates, flat out last.
func (all entries) rates() []int {
	rates := distinct(all, func(e entry) int { return e.Load.Rate })
	slices.SortFunc(rates, func(a, b int) int { return cmp.Compare(flatOutLast(a), flatOutLast(b)) })
	return rates
}

const flatOut = 0

func flatOutLast(rate int) int {
	if rate == flatOut {
		return math.MaxInt
	}
	return rate
}

// distinct returns each value once, in the order of the entries.
func distinct[T comparable](all entries, of func(entry) T) (values []T) {
	for _, e := range all {
		if v := of(e); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// cheapestPeer returns the peer with the lowest cost of a line among entries of one load.
func (all entries) cheapestPeer() (least entry, ok bool) {
	for _, e := range all {
		if cost := e.Columns[cpuPerLine].Median; e.Server != sluice && (!ok || cost < least.Columns[cpuPerLine].Median) {
			least, ok = e, true
		}
	}
	return least, ok
}
