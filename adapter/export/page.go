package export

import (
	"context"
	"io"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Page is the series that some options select, as of the moment of Write.
type Page struct {
	options  Options
	source   Source
	families []metric.Family
}

// NewPage lists the metrics of a page.
func NewPage(source Source, o Options) *Page {
	p := &Page{o, source, source.Families(func(f *metric.Family) bool {
		return (len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, f.Namespace)) &&
			(len(o.Match) == 0 || matchesAny(o.Match, f.Name))
	})}
	if o.WithoutTotals {
		for i := range p.families {
			p.families[i].Kinds &^= totals
		}
		p.families = slices.DeleteFunc(p.families, func(f metric.Family) bool { return f.Kinds == 0 })
	}
	return p
}

// HasTotals reports whether the page has a total, so that it must not be sent before Persist.
func (p *Page) HasTotals() bool {
	return slices.ContainsFunc(p.families, func(f metric.Family) bool { return f.Kinds&totals != 0 })
}

// Empty reports whether the page has no metric.
func (p *Page) Empty() bool { return len(p.families) == 0 }

// Keep drops the metrics of the objects for which readable returns false. It is called once for
// each resource and namespace, with the name "*".
func (p *Page) Keep(readable func(metric.Object) bool) {
	decided := map[metric.Object]bool{}
	p.families = slices.DeleteFunc(p.families, func(f metric.Family) bool {
		o := scopeOf(&f)
		may, known := decided[o]
		if !known {
			may = readable(o)
			decided[o] = may
		}
		return !may
	})
}

// Scopes returns the objects that Keep asks for.
func (p *Page) Scopes() (all []metric.Object) {
	known := map[metric.Object]bool{}
	for i := range p.families {
		if o := scopeOf(&p.families[i]); !known[o] {
			known[o] = true
			all = append(all, o)
		}
	}
	return all
}

// scopeOf is all objects of a family's resource in its namespace.
func scopeOf(f *metric.Family) metric.Object {
	if f.External() {
		return metric.Object{Namespace: f.Namespace}
	}
	return metric.Object{Resource: f.Resource, Namespace: f.Namespace, Name: "*"}
}

// Written is what a page had.
type Written struct {
	Series int
	// LeftOut counts series whose exposed name and labels another series had, and metrics whose
	// name another type had, or Sluice's own metrics have.
	LeftOut int
}

// Write writes the page. It reads while it writes, so a slow w makes it slow.
func (p *Page) Write(w io.Writer) (Written, error) {
	n, leftOut := newNames(&p.options, p.families)
	p.families = nil // names has what is needed
	b := &writer{to: w, options: &p.options, names: &n, reader: p.source.Reader(), seen: newSeen()}
	b.written.LeftOut = leftOut
	n.groups(func(group []part) {
		if b.err == nil {
			b.group(group)
		}
	})
	if b.err == nil {
		b.text = exposition.AppendEnd(b.text, p.options.Format)
		b.flush()
	}
	return b.written, b.err
}

// Source is the table, and the disk that keeps it.
type Source interface {
	// Families returns the metrics that match. match must not call the source.
	Families(match func(*metric.Family) bool) []metric.Family
	// Reader returns a Reader for one goroutine.
	Reader() Reader
	// Persist returns once neither a kill nor a power cut takes back what was read before the call.
	Persist(ctx context.Context) error
	// Persisting returns why Persist would fail, as far as known.
	Persisting() error
}

// Reader reads series.
type Reader interface {
	// Series calls yield for each live series of a family that has a kind, until yield returns
	// false. The series is valid until yield returns, which may wait.
	Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool)
}

// Cumulative reports whether exports show a kind as totals since the birth of a series. Readers take
// a total that falls for a reset and count all of it again, so an export sends none before Persist
// has returned, and leaves them out while the source isn't persisting (docs/adr/0072).
func Cumulative(k metric.Kind) bool { return totals.Has(k) }

const totals = metric.KindSet(1<<metric.Counter | 1<<metric.Timer)
