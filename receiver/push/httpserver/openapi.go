package httpserver

import (
	"bytes"
	"encoding/json"
	"strings"
)

// An Operation describes one method of one path for the OpenAPI document. Components are named
// without the way to them, "#/components/...".
type Operation struct {
	Method, Path string // the path with {variables}
	ID           string
	Summary      string
	Description  string
	Params       string // components, separated by spaces
	Body         string // a component of requestBodies; empty: no body
	// Answers are "status:component" of responses, separated by spaces, beside the answers that
	// every operation has.
	Answers string
}

// Every operation has these answers, unless its own have the same status.
const (
	alwaysAnswers = "400:Refused 408:Timeout 429:Limited 431:HeadersTooLarge 503:Unavailable"
	secretAnswers = "401:Unauthorized 403:Forbidden" // unless the route is public
	bodyAnswers   = "413:TooLarge 415:Unsupported"   // of operations with a body
)

// LinesDescription describes the operations that take bodies of lines.
const LinesDescription = "Each line is applied or rejected on its own; applied lines stay applied. 403: the sender may push none of the rejected samples. 429: every rejected sample is over a limit."

// OpenAPI completes a document that has everything but its paths with those of the routes
// (https://spec.openapis.org/oas/v3.1.1.html).
func OpenAPI(rest []byte, routes []*Route) ([]byte, error) {
	var document ordered
	var parts struct {
		OpenAPI, Info, Servers, Security, Tags, Components json.RawMessage
	}
	if err := json.Unmarshal(rest, &parts); err != nil {
		return nil, err
	}
	var paths ordered
	for _, r := range routes {
		for _, o := range r.Operations {
			methods, _ := paths.get(o.Path).(*ordered)
			if methods == nil {
				methods = new(ordered)
				paths.add(o.Path, methods)
			}
			methods.add(strings.ToLower(o.Method), o.describe(r))
		}
	}
	document.add("openapi", parts.OpenAPI)
	document.add("info", parts.Info)
	document.add("servers", parts.Servers)
	document.add("security", parts.Security)
	document.add("tags", parts.Tags)
	document.add("paths", &paths)
	document.add("components", parts.Components)
	return json.MarshalIndent(&document, "", "  ")
}

func (o *Operation) describe(r *Route) *ordered {
	var d ordered
	d.add("operationId", o.ID)
	d.add("tags", []string{r.Tag})
	d.add("summary", o.Summary)
	if o.Description != "" {
		d.add("description", o.Description)
	}
	answers := alwaysAnswers
	if r.Public {
		d.add("security", []string{})
	} else {
		answers += " " + secretAnswers
	}
	if names := strings.Fields(o.Params); len(names) > 0 {
		params := make([]reference, len(names))
		for i, name := range names {
			params[i] = refer("parameters", name)
		}
		d.add("parameters", params)
	}
	if o.Body != "" {
		d.add("requestBody", refer("requestBodies", o.Body))
		answers += " " + bodyAnswers
	}
	responses := map[string]reference{}
	for _, answer := range strings.Fields(answers + " " + o.Answers) {
		status, name, _ := strings.Cut(answer, ":")
		responses[status] = refer("responses", name)
	}
	d.add("responses", responses)
	return &d
}

type reference struct {
	Ref string `json:"$ref"`
}

func refer(sort, name string) reference { return reference{"#/components/" + sort + "/" + name} }

// ordered is a JSON object that keeps the order in which its fields were added.
type ordered []struct {
	key   string
	value any
}

func (o *ordered) add(key string, value any) {
	*o = append(*o, struct {
		key   string
		value any
	}{key, value})
}

func (o *ordered) get(key string) any {
	for _, field := range *o {
		if field.key == key {
			return field.value
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o *ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i, field := range *o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(field.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(field.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
