package chart

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The types below are the part of Grafana's schema of dashboards that ours uses: kinds/dashboard in
// its repository, schema version 39, and the options of the panels' own plugins. An unknown field
// is one that Grafana ignores without a word.

type grafanaDashboard struct {
	Annotations   struct{ List []json.RawMessage }
	Editable      bool
	Panels        []json.RawMessage
	Refresh       string
	SchemaVersion int
	Tags          []string
	Templating    struct{ List []grafanaVariable }
	Time          struct{ From, To string }
	Timezone      string
	Title         string
	UID           string
	Version       int
}

type grafanaVariable struct {
	Type, Name, Label string
	Query             json.RawMessage
	Datasource        *grafanaSource
	Definition        string
	AllValue          string
	Current           *struct{ Text, Value []string }
	IncludeAll, Multi bool
	Refresh, Sort     int
}

type grafanaSource struct{ Type, UID string }

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               *grafanaSource
	Targets                  []struct{ Expr, LegendFormat, RefID string }
	FieldConfig              *struct {
		Defaults  grafanaField
		Overrides []json.RawMessage
	}
	Options json.RawMessage
	// of rows
	Collapsed bool
	Panels    []json.RawMessage
}

type grafanaField struct {
	Unit       string
	Min        *float64
	Thresholds *struct {
		Mode  string
		Steps []struct {
			Color string
			Value *float64
		}
	}
	Mappings []struct {
		Type    string
		Options map[string]struct {
			Text, Color string
			Index       int
		}
	}
}

type grafanaLegend struct {
	DisplayMode, Placement string
	ShowLegend             bool
}

// grafanaOptions are those of each type of panel.
var grafanaOptions = map[string]func() any{
	"timeseries": func() any {
		return &struct {
			Legend  grafanaLegend
			Tooltip struct{ Mode, Sort string }
		}{}
	},
	"stat": func() any {
		return &struct {
			ColorMode, TextMode string
			ReduceOptions       struct{ Calcs []string }
		}{}
	},
	"state-timeline": func() any {
		return &struct {
			Legend      grafanaLegend
			MergeValues bool
			RowHeight   float64
			ShowValue   string
		}{}
	},
}

// words are the fields that take one of a few, by their names.
var words = map[string][]string{
	"displayMode": {"list", "table", "hidden"},
	"placement":   {"bottom", "right"},
	"colorMode":   {"none", "value", "background", "background_solid"},
	"textMode":    {"auto", "value", "value_and_name", "name", "none"},
	"showValue":   {"auto", "always", "never"},
	"unit":        {"short", "none", "s", "ms", "bytes", "Bps", "cps", "pps", "reqps", "percentunit", "dateTimeFromNow"},
	"calcs":       {"lastNotNull", "last", "max", "min", "mean", "sum"},
	"color":       {"green", "yellow", "orange", "red", "blue", "purple", "text", "transparent"},
}

// exactly decodes a document into a type that has all its fields.
func exactly(t *testing.T, what string, text []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestDashboardIsOfGrafanasSchema: without a Grafana, this is what can be seen of it.
func TestDashboardIsOfGrafanasSchema(t *testing.T) {
	text := []byte(read(t, folder+"/dashboards/sluice.json"))
	var d grafanaDashboard
	exactly(t, "dashboard", text, &d)
	if d.Title == "" || len(d.UID) > 40 || d.UID == "" || d.SchemaVersion < 36 || d.Time.From == "" || len(d.Panels) < 10 {
		t.Errorf("%q, uid %q, schema %d, time %v, %d panels", d.Title, d.UID, d.SchemaVersion, d.Time, len(d.Panels))
	}
	variables := []string{"__rate_interval", "__interval", "__range"}
	for _, v := range d.Templating.List {
		if !slices.Contains([]string{"query", "datasource", "custom", "constant", "interval", "textbox"}, v.Type) || v.Name == "" || v.Refresh > 2 {
			t.Errorf("variable %+v", v)
		}
		variables = append(variables, v.Name)
	}
	for _, used := range strings.Split(string(text), "$")[1:] {
		name := strings.TrimPrefix(used, "{")
		if strings.HasPrefix(name, "__all") || strings.HasPrefix(name, "1") {
			continue // the value "all" of a variable; a group of label_replace
		}
		if !slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(name, v) }) {
			t.Errorf("the variable $%.20s is defined nowhere", used)
		}
	}
	for _, one := range d.Panels {
		checkPanel(t, one)
	}
	var whole any
	must(t, json.Unmarshal(text, &whole))
	checkWords(t, "", whole)
}

func checkPanel(t *testing.T, text json.RawMessage) {
	t.Helper()
	var p grafanaPanel
	exactly(t, "panel", text, &p)
	if p.ID < 1 || p.Title == "" || p.GridPos.H < 1 || p.GridPos.W < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
		t.Errorf("panel %d %q at %+v", p.ID, p.Title, p.GridPos)
	}
	if p.Type == "row" {
		return
	}
	options, known := grafanaOptions[p.Type]
	if !known {
		t.Errorf("%s: a panel of type %q", p.Title, p.Type)
		return
	}
	exactly(t, "options of "+p.Title, p.Options, options())
	if p.Datasource == nil || p.Datasource.UID != "${datasource}" || p.FieldConfig == nil {
		t.Errorf("%s has no datasource that is chosen, or no fieldConfig", p.Title)
		return
	}
	references := map[string]bool{}
	for _, target := range p.Targets {
		if references[target.RefID] || target.RefID == "" {
			t.Errorf("%s: refId %q is there twice, or empty", p.Title, target.RefID)
		}
		references[target.RefID] = true
	}
	if steps := p.FieldConfig.Defaults.Thresholds; steps != nil {
		for i, step := range steps.Steps { // the first is from minus infinity, which is null
			if (step.Value == nil) != (i == 0) || i > 1 && *step.Value <= *steps.Steps[i-1].Value {
				t.Errorf("%s: step %d of the thresholds is out of order", p.Title, i)
			}
		}
	}
}

// checkWords looks for fields with a word that Grafana doesn't know, which it takes for the
// default.
func checkWords(t *testing.T, key string, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			checkWords(t, name, child)
		}
	case []any:
		for _, child := range v {
			checkWords(t, key, child)
		}
	case string:
		if known := words[key]; known != nil && !slices.Contains(known, v) {
			t.Errorf("%s is %q; must be one of %v", key, v, known)
		}
	}
}
