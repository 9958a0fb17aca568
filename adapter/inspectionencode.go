package adapter

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// list encodes a page.
func (f form) list(of inspect.Resource, found documents, now time.Time) []byte {
	meta := inspect.ListMeta{Continue: found.next.Token(of.Name)}
	if f.table {
		return f.tableOf(of, found.items, meta, now)
	}
	text := append(listHead(of.Kind+"List", inspect.GroupVersion, meta), `"items":[`...)
	for i, one := range found.items {
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = appendDocument(text, "", one)
	}
	return append(text, "]}\n"...)
}

// one encodes a document.
func (f form) one(of inspect.Resource, one inspect.Document, now time.Time) []byte {
	if f.table {
		return f.tableOf(of, rowsOf(one), inspect.ListMeta{}, now)
	}
	kind := of.Kind
	if _, isDetail := one.(*inspect.MetricDetail); isDetail {
		kind = "MetricDetail"
	}
	return append(appendDocument(nil, kind, one), '\n')
}

// rowsOf are the documents that a table shows for one.
func rowsOf(one inspect.Document) []inspect.Document {
	detail, ok := one.(*inspect.MetricDetail)
	if !ok {
		return []inspect.Document{one}
	}
	var rows []inspect.Document
	for i := range detail.Metrics {
		rows = append(rows, &detail.Metrics[i])
	}
	return rows
}

// listHead is the beginning of a list, up to its metadata.
func listHead(kind, version string, meta inspect.ListMeta) []byte {
	return appendMembers([]byte{'{'}, struct {
		Kind       string           `json:"kind"`
		APIVersion string           `json:"apiVersion"`
		Metadata   inspect.ListMeta `json:"metadata"`
	}{kind, version, meta})
}

// appendDocument appends a document with its metadata. kind is set outside of lists.
func appendDocument(text []byte, kind string, one inspect.Document) []byte {
	head := struct {
		Kind       string       `json:"kind,omitempty"`
		APIVersion string       `json:"apiVersion,omitempty"`
		Metadata   inspect.Meta `json:"metadata"`
	}{Kind: kind, Metadata: one.Meta()}
	if kind != "" {
		head.APIVersion = inspect.GroupVersion
	}
	text = appendMembers(append(text, '{'), head)
	text = appendMembers(text, one)
	text[len(text)-1] = '}' // in place of the last comma
	return text
}

// appendMembers appends the members of a JSON object, each with a comma behind it.
func appendMembers(text []byte, v any) []byte {
	object := encoded(v)
	return append(append(text, object[1:len(object)-1]...), ',')
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // impossible: every document is of a type that can be encoded
		panic("adapter: a document cannot be encoded: " + err.Error())
	}
	return text
}

// tableOf encodes Kubernetes' table of documents (meta.k8s.io/v1), which kubectl prints.
func (f form) tableOf(of inspect.Resource, all []inspect.Document, meta inspect.ListMeta, now time.Time) []byte {
	text := listHead("Table", "meta.k8s.io/v1", meta)
	text = append(text, `"columnDefinitions":[`...)
	for i, column := range of.Columns {
		definition := tableColumn{Name: column.Name, Type: "string"}
		if column.Wide {
			definition.Priority = 1
		}
		if i == 0 {
			definition.Format = "name"
		} else {
			text = append(text, ',')
		}
		text = append(text, encoded(definition)...)
	}
	text = append(text, `],"rows":[`...)
	for i, one := range all {
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = append(text, `{"cells":`...)
		text = append(text, encoded(one.Cells(now))...)
		text = append(f.appendRowObject(text, of, one), '}')
	}
	return append(text, "]}\n"...)
}

// appendRowObject appends what a row is about: its metadata, unless something else is asked for.
func (f form) appendRowObject(text []byte, of inspect.Resource, one inspect.Document) []byte {
	switch f.object {
	case "None":
		return text
	case "Object":
		return appendDocument(append(text, `,"object":`...), of.Kind, one)
	}
	return append(append(text, `,"object":`...), encoded(struct {
		Kind       string       `json:"kind"`
		APIVersion string       `json:"apiVersion"`
		Metadata   inspect.Meta `json:"metadata"`
	}{"PartialObjectMetadata", "meta.k8s.io/v1", one.Meta()})...)
}

type tableColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int    `json:"priority"`
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client went away
}
