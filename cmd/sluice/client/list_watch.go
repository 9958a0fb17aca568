package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Events of a watched list, as Kubernetes names them.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// listWatch prints a list as kubectl's get --watch does: its rows once, then a row for each change. Of something
// that is gone it prints the last row again.
type listWatch struct {
	*listOptions
	resource  inspect.Resource
	out, errs io.Writer
	known     map[string]watchedDocument
	rows      alignedRows
	begun     bool   // something was printed
	fault     string // of the last read; empty: it had none
}

// watchedDocument is a document as it was printed last.
type watchedDocument struct {
	document inspect.Document
	raw      json.RawMessage
	version  string // differs if something differs that is printed, other than an age
}

// watchList lists until ctx ends. An error of the first read ends it; later ones are told once, because the server
// may come back.
func (o *listOptions) watchList(ctx context.Context, out, errs io.Writer, api *metricsAPI, resource inspect.Resource) error {
	w := listWatch{listOptions: o, resource: resource, out: out, errs: errs, rows: alignedRows{out: out}}
	return repeat(ctx, o.interval, func(first bool) error {
		all, err := o.read(ctx, api, resource)
		switch {
		case ctx.Err() != nil:
			return nil
		case first && err == nil:
			err = o.missing(resource, all)
		}
		if first && err != nil {
			return err
		}
		return w.show(time.Now(), all, err)
	})
}

// show prints what changed since the last read.
func (w *listWatch) show(now time.Time, all listed, err error) error {
	if err != nil {
		if fault := metric.Visible(because(err)); fault != w.fault {
			w.fault = fault
			fmt.Fprintln(w.errs, fault)
		}
		return nil
	}
	if len(all.documents) == 0 && w.known == nil {
		fmt.Fprintln(w.errs, w.nothing(w.resource))
	}
	w.fault = ""
	after, rows := map[string]watchedDocument{}, [][]string(nil)
	tell := func(event string, d watchedDocument) (err error) {
		if w.output.IsDocument() || w.output.Word == "name" {
			return w.print(event, d)
		}
		rows = append(rows, w.row(event, w.cells(w.resource, d.document, now)))
		return nil
	}
	for i, document := range all.documents {
		key, one := w.versionOf(document, all.raw[i])
		before, known := w.known[key]
		after[key] = one
		if known && before.version == one.version {
			continue
		}
		event := modified
		if !known {
			event = added
		}
		if err := tell(event, one); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		if _, stays := after[key]; !stays {
			if err := tell(deleted, w.known[key]); err != nil {
				return err
			}
		}
	}
	w.known = after
	return w.printRows(rows)
}

// versionOf is the key of a document and what is compared of it: of a table, and of names, the cells without ages.
func (w *listWatch) versionOf(document inspect.Document, raw json.RawMessage) (string, watchedDocument) {
	fixed := document.Cells(time.Time{}) // at the beginning of time all ages are 0
	key := document.Meta().Namespace + "/" + strings.Join(fixed[:w.resource.Identity], "\t")
	one := watchedDocument{document, raw, strings.Join(w.cells(w.resource, document, time.Time{}), "\t")}
	if w.output.IsDocument() {
		one.version = string(raw)
	}
	return key, one
}

// row is a row of the table, behind its event if that is asked for.
func (w *listWatch) row(event string, cells []string) []string {
	if w.events {
		return append([]string{event}, cells...)
	}
	return cells
}

func (w *listWatch) printRows(rows [][]string) error {
	if len(rows) > 0 && !w.begun {
		if w.begun = true; !w.noHeaders {
			rows = append([][]string{w.row("EVENT", w.columnNames(w.resource))}, rows...)
		}
	}
	return w.rows.print(rows)
}

// print prints a document, or its name.
func (w *listWatch) print(event string, d watchedDocument) error {
	if w.output.Word == "name" {
		return printNames(w.out, w.resource, listed{documents: []inspect.Document{d.document}})
	}
	text := d.raw
	if w.events {
		var err error
		if text, err = json.Marshal(map[string]any{"type": event, "object": d.raw}); err != nil {
			return err
		}
	}
	if w.begun && w.output.Word == "yaml" {
		fmt.Fprintln(w.out, "---")
	}
	w.begun = true
	return w.output.Write(w.out, text)
}
