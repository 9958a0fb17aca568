package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/pflag"
)

const chartSchema = "../../charts/sluice/values.schema.json"

// The chart's schema for "config" is generated from the settings.
func TestChartSchema(t *testing.T) {
	schema, err := os.ReadFile(chartSchema)
	must(t, err)
	// From the first property of "config" to the brace that closes them, both at a line's start.
	before, rest, ok := strings.Cut(string(schema), "\n    \"config\": {\n")
	head, rest, ok2 := strings.Cut(rest, "\n      \"properties\": {\n")
	_, after, ok3 := strings.Cut(rest, "\n      }\n")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no properties of config in the form that this test writes", chartSchema)
	}
	held(t, chartSchema, before+"\n    \"config\": {\n"+head+"\n      \"properties\": {\n"+schemaOfSettings(t)+"\n      }\n"+after)
}

// schemaOfSettings is a line of JSON schema for each setting.
func schemaOfSettings(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, group := range defaultConfig().settingGroups() {
		for _, s := range group.settings {
			rule := fmt.Sprintf(`"$ref": "#/$defs/%s"`, schemaOfType(s.variable))
			if choice, ok := s.variable.(*command.Choice); ok {
				words, err := json.Marshal(choice.Words)
				must(t, err)
				rule = `"enum": ` + strings.ReplaceAll(string(words), ",", ", ")
			}
			help, err := json.Marshal(s.help)
			must(t, err)
			lines = append(lines, fmt.Sprintf("        %q: {%s, \"description\": %s}", s.name, rule, help))
		}
	}
	return strings.Join(lines, ",\n")
}

// schemaOfType is the schema's definition of a setting's values.
func schemaOfType(variable any) string {
	switch one := variable.(type) {
	case *bool:
		return "truth"
	case *int:
		return "whole"
	case *float64:
		return "decimal"
	case *time.Duration:
		return "span"
	case *durations:
		return "spans"
	case pflag.Value:
		if one.Type() == "size" {
			return "bytes"
		}
	}
	return "setting"
}

// The schema takes the texts that the flag of a setting takes, and refuses those that no setting of its type does.
func TestChartSchemaTakesWhatFlagsTake(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Pattern string
			AnyOf   []struct{ Type, Pattern string }
		} `json:"$defs"`
	}
	text, err := os.ReadFile(chartSchema)
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	must(t, err)
	takes := func(definition, text string) bool {
		def := schema.Defs[definition]
		for _, choice := range def.AnyOf {
			if choice.Type == "string" {
				def.Pattern = choice.Pattern
			}
		}
		return regexp.MustCompile(def.Pattern).MatchString(text)
	}
	texts := []string{"abc", "5parsecs", "", "0", "1", "12", "-3", "1_000", "0x1F", "1.5", ".5", "1e3", "true", "FALSE", "yes",
		"10s", "1m30s", "1.5h", "100ms", "10", "10s,1m", "10s, 1m,5m", "10s,", "64KiB", "2GiB", "1MB", "1d"}
	seen := map[string]int{}
	for _, group := range defaultConfig().settingGroups() {
		for _, s := range group.settings {
			definition := schemaOfType(s.variable)
			if seen[definition]++; definition == "setting" || seen[definition] > 1 {
				continue
			}
			flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			bindFlag(flags, s)
			for _, text := range texts {
				if err := flags.Set(s.name, text); takes(definition, text) != (err == nil) {
					t.Errorf("%s: %q: the flag says %v, the schema takes it: %v", s.name, text, err, err != nil)
				}
			}
		}
	}
	if len(seen) != 7 {
		t.Errorf("%v: the test does not see what it should", seen)
	}
}

// The words of a choice are those that its type knows: each sets the variable, and reads back.
func TestChoicesAreComplete(t *testing.T) {
	for _, group := range defaultConfig().settingGroups() {
		for _, s := range group.settings {
			choice, ok := s.variable.(*command.Choice)
			if !ok {
				continue
			}
			for _, word := range choice.Words {
				if err := choice.Set(word); err != nil || choice.String() != word {
					t.Errorf("%s: %s is read back as %s (%v)", s.name, word, choice, err)
				}
			}
		}
	}
	for dialect := statsd.Dialect(0); dialect.String() != statsd.Dialect(255).String(); dialect++ {
		if !slices.Contains(dialects, dialect.String()) {
			t.Errorf("the dialect %s is none of the setting's words", dialect)
		}
	}
	for trust := identity.Open; trust <= identity.Strict; trust++ {
		if !slices.Contains(trustModes, trust.String()) {
			t.Errorf("the trust %s is none of the setting's words", trust)
		}
	}
}

// A setting that is added must be complete: a field of its own, help that stands alone, and a fault
// that leads back to it.
func TestSettingsAreComplete(t *testing.T) {
	c := defaultConfig()
	c.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	seen := map[string]bool{}
	for _, group := range c.settingGroups() {
		for _, s := range group.settings {
			if seen[s.name] || notInFile[s.name] {
				t.Errorf("the name %s is taken", s.name)
			}
			seen[s.name] = true
			if got := c.names[s.field()]; got != s.name {
				t.Errorf("%s and %s set one field", s.name, got)
			}
			if !strings.HasSuffix(s.help, ".") || !unicode.IsUpper(rune(s.help[0])) {
				t.Errorf("%s: the help is not a sentence: %s", s.name, s.help)
			}
			for _, leaning := range []string{"likewise", "of them", "the same", " its key", "as above"} {
				if strings.Contains(s.help, leaning) {
					t.Errorf("%s: the help cannot be understood alone, it says %q", s.name, leaning)
				}
			}
		}
	}
}

// Every field of a stage's Config is a setting, or is known to be none. A new field is an error
// here until it has an entry in settingGroups, or a line below.
func TestEveryFieldIsASettingOrNone(t *testing.T) {
	none := map[string]string{
		"receiver.Listeners": "made from the statsd settings", "receiver.MaxLine": "a protocol's limit",
		"receiver.MaxTags": "a protocol's limit", "receiver.MaxPacket": "a protocol's limit",
		"receiver.DrainTimeout": "internal", "receiver.Pending": "internal",
		"push.Dialect": "made from dialect", "push.MaxBufferedBytes": "made from http-max-body",
		"push.MaxHeaderBytes": "a protocol's limit", "push.MaxLineBytes": "a protocol's limit",
		"receiver.HTTPAddress": "made from http-address, for messages",
		"limit.Origin":         "the name of the replica, from replica-name",
		"push.MaxLabels":       "a protocol's limit", "push.MaxLabelBytes": "a protocol's limit",
		"push.ReadTimeout": "internal", "push.WriteTimeout": "internal", "push.IdleTimeout": "internal",
		"push.SyncTimeout": "internal", "push.PendingTimeout": "internal", "push.ShutdownTimeout": "internal",
		"cluster.Version": "the build's", "cluster.Replica": "made from replica-name", "cluster.Replicas": "made from replica-cluster", "store.ProbeTimeout": "internal", "store.StopTimeout": "internal",
		"table.Replicated": "made from replica-peers and nats-url", "table.NamespaceShares": "made from standalone",
		"api.CertDir": "made from data-dir", "api.RequestTimeout": "internal", "api.MaxConnections": "internal", "api.ShutdownDelay": "internal",
		"push.ReceiveBuffer": "of agents, which have little memory",
		"api.AnyProxyName":   "the API server has the safer setting",
	}
	c := defaultConfig()
	c.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	for name, stage := range map[string]validator{
		"receiver": &c.receiver, "push": &c.push, "groups": &c.groups, "identity": &c.identity, "cluster": &c.cluster,
		"limit": &c.limit, "table": &c.table, "store": &c.store, "natsbus": &c.natsbus, "api": &c.api, "operations": &c.operations,
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(stage).Elem()) {
			if field.Anonymous {
				continue // its fields follow
			}
			path := name + "." + field.Name
			_, known := none[path]
			if set := c.settingOf(stage, config.Field(field.Name)) != ""; set == known {
				t.Errorf("%s is a setting: %v, is listed as none: %v", path, set, known)
			}
			delete(none, path)
		}
	}
	for path := range none {
		t.Errorf("there is no field %s", path)
	}
}

// Faults name fields that exist: every fault of an empty Config leads to a setting, or names a
// field.
func TestFaultsNameFields(t *testing.T) {
	c := serverConfig{}
	c.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	for _, stage := range []validator{
		&c.receiver, &c.push, &c.groups, &c.identity, &c.cluster, &c.limit, &c.table, &c.store, &c.api, &c.operations,
	} {
		for _, err := range config.Split(stage.Validate()) {
			var fault *config.Fault
			if !errors.As(err, &fault) {
				t.Errorf("%T: untyped fault: %v", stage, err)
				continue
			}
			field := reflect.ValueOf(stage).Elem()
			for _, name := range strings.Split(string(fault.Field), ".") {
				if field = field.FieldByName(name); !field.IsValid() {
					t.Fatalf("%T has no field %s: %v", stage, fault.Field, err)
				}
			}
		}
	}
}
