package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// notInFile are flags of serve that are no settings.
var notInFile = map[string]bool{"config": true, "help": true, "print-example-config": true}

// readConfigFile sets flags from a YAML file whose keys are the flags' names. It returns every
// fault in the file, with its line, and where each setting is written. A flag given on the command
// line keeps its value.
func readConfigFile(path string, flags *pflag.FlagSet) (written map[string]string, faults []error) {
	broken := func(where, text string) (map[string]string, []error) {
		return nil, []error{&command.SettingFault{Name: "config", Written: where + ":", Text: text}}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return broken("--config", err.Error())
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // an empty file sets nothing
	} else if err != nil {
		return broken(yamlFault(path, text, err))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return broken(path, "the file has several YAML documents; must be one")
	}
	if document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	settings := document.Content[0]
	if settings.Kind != yaml.MappingNode {
		return broken(fmt.Sprintf("%s:%d", path, settings.Line),
			"the file is not a map of settings; must be lines as in \"max-series: 1000\"")
	}
	written = map[string]string{}
	lines := map[string]int{}
	for i := 0; i+1 < len(settings.Content); i += 2 {
		key, value := settings.Content[i], settings.Content[i+1]
		if line, twice := lines[key.Value]; twice {
			faults = append(faults, fmt.Errorf("%s:%d: %s is already set in line %d", path, key.Line, key.Value, line))
			continue
		}
		lines[key.Value] = key.Line
		flag := flags.Lookup(key.Value)
		if flag == nil || notInFile[key.Value] {
			faults = append(faults, newUnknownSetting(fmt.Sprintf("%s:%d", path, key.Line), key.Value, flags))
			continue
		}
		as := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		given := flag.Changed
		if err := setFromFile(flag, value); err != nil {
			faults = append(faults, &command.SettingFault{Name: flag.Name, Written: as, Text: err.Error()})
		} else if !given {
			written[flag.Name] = as
		}
	}
	return written, faults
}

// newUnknownSetting is the fault of an unknown key, with the nearest setting.
func newUnknownSetting(where, key string, flags *pflag.FlagSet) *command.UnknownFlag {
	u := &command.UnknownFlag{Text: fmt.Sprintf("%s: unknown setting %q", where, key),
		Nearest: command.NearestFlag(key, flags)}
	if u.Nearest == "" || notInFile[u.Nearest] {
		u.Text += "; 'sluice serve --print-example-config' lists all"
	} else {
		u.Text += fmt.Sprintf("; did you mean %q?", u.Nearest)
	}
	return u
}

// yamlFault says where and why the file is not YAML: "yaml: line 3: …" in the form of other faults.
// The library reports a tab in the indentation without naming it, and not always with its line.
func yamlFault(path string, file []byte, err error) (where, text string) {
	var spaced yaml.Node
	if tab := guiltyTab(file); tab >= 0 && yaml.Unmarshal(bytes.ReplaceAll(file, []byte("\t"), []byte(" ")),
		&spaced) == nil {
		return fmt.Sprintf("%s:%d", path, 1+bytes.Count(file[:tab],
			[]byte("\n"))), "the line has a tab; YAML must be indented with spaces"
	}
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if line, ok := strings.CutPrefix(text, "line "); ok {
		if number, why, ok := strings.Cut(line, ": "); ok {
			return path + ":" + number, why
		}
	}
	return path, text
}

// guiltyTab is the position of the first tab that indents a line, else of the first tab; -1: none.
func guiltyTab(file []byte) int {
	if at := indentingTab.FindIndex(file); at != nil {
		return at[1] - 1
	}
	return bytes.IndexByte(file, '\t')
}

var indentingTab = regexp.MustCompile(`(?m)^ *\t`)

// setFromFile sets a flag that the command line did not set.
func setFromFile(flag *pflag.Flag, value *yaml.Node) error {
	text, err := scalarText(value)
	if err != nil || flag.Changed {
		return err
	}
	return command.Set(flag, text)
}

var errNotScalar = errors.New("is not one value; must be one value, or a list of values")

// scalarText is a value in the notation of a flag; a list is joined with commas.
func scalarText(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		pieces := make([]string, len(value.Content))
		for i, piece := range value.Content {
			if piece.Kind != yaml.ScalarNode {
				return "", errNotScalar
			}
			pieces[i] = piece.Value
		}
		return strings.Join(pieces, ","), nil
	}
	return "", errNotScalar
}

// exampleConfig is a configuration file with every setting at its default, commented out.
func exampleConfig() string {
	c := defaultConfig()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.bind(flags)
	var b strings.Builder
	b.WriteString("# Settings of \"sluice serve --config FILE\". Every setting is commented out and at its default.\n" +
		"# An unknown setting is an error. A flag of the same name overrides the file.\n")
	for _, group := range c.settingGroups() {
		fmt.Fprintf(&b, "\n# --- %s ---\n", group.heading)
		for _, s := range group.settings {
			b.WriteString("\n" + command.Wrap(s.help, "# ", 100))
			if choice, ok := s.variable.(*command.Choice); ok {
				fmt.Fprintf(&b, "# One of %s.\n", command.OneOf(choice.Words))
			}
			fmt.Fprintf(&b, "# %s: %s\n", s.name, yamlDefault(flags.Lookup(s.name)))
		}
	}
	return b.String()
}

// yamlDefault is the default of a flag as a YAML scalar.
func yamlDefault(flag *pflag.Flag) string {
	value := command.ShortDuration(flag)
	if value == "" || strings.HasPrefix(value, ":") {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// faultySetting is the name of the setting that an error is about; empty: none.
func faultySetting(err error) string {
	var fault *command.SettingFault
	if errors.As(err, &fault) {
		return fault.Name
	}
	return ""
}

// faulty are the settings that the errors are about.
func faulty(errs []error) map[string]bool {
	names := map[string]bool{}
	for _, err := range errs {
		if name := faultySetting(err); name != "" {
			names[name] = true
		}
	}
	return names
}

// validator is a stage's configuration.
type validator interface{ Validate() error }

// fault is the fault of a setting, which it names as the user wrote it.
func (c *serverConfig) fault(name, format string, args ...any) *command.SettingFault {
	return &command.SettingFault{Name: name, Written: c.as(name), Text: fmt.Sprintf(format, args...)}
}

// as is the name of a setting as the user wrote it.
func (c *serverConfig) as(name string) string {
	if line, ok := c.written[name]; ok {
		return line
	}
	return "--" + name
}

// word renders a stage's fault with the names of settings. It fails for errors of other types, and
// for fields that no setting sets.
func (c *serverConfig) word(stage validator, err error) (error, bool) {
	var fault *config.Fault
	if !errors.As(err, &fault) {
		return err, false
	}
	name := c.settingOf(stage, fault.Field)
	if name == "" {
		return err, false
	}
	return c.fault(name, "%s", fault.Text(func(other config.Field) string {
		if name := c.settingOf(stage, other); name != "" {
			return "--" + name
		}
		return string(other)
	})), true
}

// settingOf is the name of the setting that sets a stage's field; empty: none.
func (c *serverConfig) settingOf(stage validator, field config.Field) string {
	if listener, ok := strings.CutPrefix(string(field), "Listeners["); ok {
		number, field, _ := strings.Cut(listener, "].")
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(c.receiver.Listeners) {
			return ""
		}
		return c.names[c.statsd.listenerField(c.receiver.Listeners[i].Network, config.Field(field))]
	}
	value := reflect.ValueOf(stage).Elem()
	for _, name := range strings.Split(string(field), ".") {
		if value = value.FieldByName(name); !value.IsValid() {
			return ""
		}
	}
	return c.names[value.Addr().Interface()]
}
