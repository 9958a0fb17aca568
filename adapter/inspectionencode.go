package adapter

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxPage bounds a page, but for its last document.
const maxPage = 16 << 20

// page makes a page and encodes it. One that is too long is made again of as many documents as fit: the next one begins behind them.
func (f form) page(resource inspect.Resource, list pageOf, q inspect.Query, now time.Time) []byte {
	for {
		found := list(q)
		text, fit := f.list(resource, found, now)
		if fit == len(found.items) {
			return text
		}
		q.Most = fit
	}
}

// list encodes a page, and says how many of its documents fit.
func (f form) list(resource inspect.Resource, found documents, now time.Time) (text []byte, fit int) {
	meta := inspect.ListMeta{Continue: found.next.Token(resource.Name)}
	if f.table {
		return f.tableOf(resource, found.items, meta, now)
	}
	text = append(listHead(resource.Kind+"List", inspect.GroupVersion, meta), `"items":[`...)
	text, fit = appendEach(text, found.items, func(text []byte, document inspect.Document) []byte {
		return appendDocument(text, "", document)
	})
	return append(text, "]}\n"...), fit
}

// appendEach appends documents until the page is long, and returns how many.
func appendEach(text []byte, all []inspect.Document, appendOne func([]byte, inspect.Document) []byte) ([]byte, int) {
	for i, document := range all {
		switch {
		case len(text) > maxPage:
			return text, i
		case i > 0:
			text = append(text, ",\n"...)
		}
		text = appendOne(text, document)
	}
	return text, len(all)
}

// one encodes a document.
func (f form) one(resource inspect.Resource, document inspect.Document, now time.Time) []byte {
	if f.table {
		text, _ := f.tableOf(resource, rowsOf(document), inspect.ListMeta{}, now)
		return text
	}
	kind := resource.Kind
	if _, isDetail := document.(*inspect.MetricDetail); isDetail {
		kind = "MetricDetail"
	}
	return append(appendDocument(nil, kind, document), '\n')
}

// rowsOf are the documents that a table shows for one.
func rowsOf(document inspect.Document) []inspect.Document {
	detail, ok := document.(*inspect.MetricDetail)
	if !ok {
		return []inspect.Document{document}
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
func appendDocument(text []byte, kind string, document inspect.Document) []byte {
	head := struct {
		Kind       string       `json:"kind,omitempty"`
		APIVersion string       `json:"apiVersion,omitempty"`
		Metadata   inspect.Meta `json:"metadata"`
	}{Kind: kind, Metadata: document.Meta()}
	if kind != "" {
		head.APIVersion = inspect.GroupVersion
	}
	text = appendMembers(append(text, '{'), head)
	text = appendMembers(text, document)
	text[len(text)-1] = '}' // in place of the last comma
	return text
}

// appendMembers appends the members of a JSON object, each with a comma behind it.
func appendMembers(text []byte, v any) []byte {
	object := encoded(v)
	return append(append(text, object[1:len(object)-1]...), ',')
}

// encoded leaves "<", ">" and "&" as they are: no browser reads the answer as HTML.
func encoded(v any) []byte {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil { // impossible: every document is of a type that can be encoded
		panic("adapter: a document cannot be encoded: " + err.Error())
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}

// tableOf encodes Kubernetes' table of documents (meta.k8s.io/v1), which kubectl prints, and says how many fit.
func (f form) tableOf(resource inspect.Resource, all []inspect.Document, meta inspect.ListMeta, now time.Time) (text []byte, fit int) {
	text = listHead("Table", "meta.k8s.io/v1", meta)
	text = append(text, `"columnDefinitions":[`...)
	for i, column := range resource.Columns {
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
	text, fit = appendEach(text, all, func(text []byte, document inspect.Document) []byte {
		text = append(append(text, `{"cells":`...), encoded(document.Cells(now))...)
		return append(f.appendRowObject(text, resource, document), '}')
	})
	return append(text, "]}\n"...), fit
}

// appendRowObject appends what a row is about: its metadata, unless something else is asked for.
func (f form) appendRowObject(text []byte, resource inspect.Resource, document inspect.Document) []byte {
	switch f.object {
	case "None":
		return text
	case "Object":
		return appendDocument(append(text, `,"object":`...), resource.Kind, document)
	}
	return append(append(text, `,"object":`...), encoded(struct {
		Kind       string       `json:"kind"`
		APIVersion string       `json:"apiVersion"`
		Metadata   inspect.Meta `json:"metadata"`
	}{"PartialObjectMetadata", "meta.k8s.io/v1", document.Meta()})...)
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

// inspectDefinitions are the schemas of the documents and lists, derived from their Go types.
func inspectDefinitions(openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := map[string]openapicommon.OpenAPIDefinition{}
	define := func(model any) {
		schema := schemaOf(reflect.TypeOf(model), true)
		all[openapiutil.GetCanonicalTypeName(model)] = openapicommon.OpenAPIDefinition{Schema: schema}
	}
	for _, resource := range inspect.Resources {
		define(resource.List)
	}
	define(inspect.MetricDetail{})
	define(inspect.Autoscaler{})
	return all
}

// schemaOf is the schema of a type as encoding/json writes it. A document has metadata beside its
// fields.
func schemaOf(t reflect.Type, document bool) (s spec.Schema) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return *spec.DateTimeProperty()
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), document)
	case t.Kind() == reflect.Slice:
		items := schemaOf(t.Elem(), document)
		return *spec.ArrayProperty(&items)
	case t.Kind() == reflect.Map:
		values := schemaOf(t.Elem(), false)
		return *spec.MapProperty(&values)
	case t.Kind() == reflect.Struct:
		s.Type, s.Properties = spec.StringOrArray{"object"}, map[string]spec.Schema{}
		addFields(&s, t, document)
		return s
	case t.Kind() == reflect.Bool:
		return *spec.BooleanProperty()
	case t.Kind() == reflect.String:
		return *spec.StringProperty()
	case t.Kind() == reflect.Int32:
		return *spec.Int32Property()
	case t.Kind() == reflect.Float64:
		return *spec.Float64Property()
	}
	return *spec.Int64Property()
}

func addFields(s *spec.Schema, t reflect.Type, document bool) {
	for field := range fieldsOf(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		// Of a list, the items are the documents.
		s.Properties[name] = schemaOf(field.Type, document && name == "items")
	}
	if _, isDocument := reflect.New(t).Interface().(inspect.Document); document && isDocument {
		s.Properties["metadata"] = schemaOf(reflect.TypeFor[inspect.Meta](), false)
	}
}

// fieldsOf yields the fields of a struct, and those of embedded ones as its own.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if field := t.Field(i); !field.Anonymous {
				if !yield(field) {
					return
				}
			} else {
				for inner := range fieldsOf(field.Type) {
					if !yield(inner) {
						return
					}
				}
			}
		}
	}
}
