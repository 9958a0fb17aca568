package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
)

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
