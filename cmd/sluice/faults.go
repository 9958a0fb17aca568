package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/config"
	"github.com/spf13/pflag"
)

// settingFault is the fault of one setting. Its message begins with the setting as the user wrote
// it: "--max-series", "-n", or "sluice.yaml:3: max-series".
type settingFault struct {
	name    string // without dashes
	written string
	text    string
}

func (f *settingFault) Error() string { return f.written + " " + f.text }

// faultySetting is the name of the setting that an error is about; empty: none.
func faultySetting(err error) string {
	var fault *settingFault
	if errors.As(err, &fault) {
		return fault.name
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

// set gives a flag a value. An invalid one leaves the flag as it was: pflag's own types would turn
// to 0, which may be a second fault. The error continues the name of the setting.
func set(flag *pflag.Flag, value string) error {
	before := flag.Value.String()
	err := flag.Value.Set(value)
	if err == nil {
		return nil
	}
	_ = flag.Value.Set(before)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("is %q, which is too large", value)
	}
	if text, ok := mustBe[flag.Value.Type()]; ok {
		return fmt.Errorf("is %q; must be %s", value, text)
	}
	return fmt.Errorf("is %q; %w", value, err)
}

// mustBe describes the values of pflag's own types.
var mustBe = map[string]string{
	"int":      "a whole number",
	"float64":  "a number",
	"bool":     "true or false",
	"duration": "a duration, as in 90s, 10m or 24h (units are ms, s, m and h)",
}

// validator is a stage's configuration.
type validator interface{ Validate() error }

// fault is the fault of a setting, which it names as the user wrote it.
func (c *serverConfig) fault(name, format string, args ...any) *settingFault {
	return &settingFault{name, c.as(name), fmt.Sprintf(format, args...)}
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
