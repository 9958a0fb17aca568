package main

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	configuration "github.com/sluice-metrics/sluice/config"
	"github.com/spf13/pflag"
)

// settingFault is what is wrong with one setting. Its message begins with the setting as the user wrote it:
// "--max-series", "-n", or "sluice.yaml:3: max-series".
type settingFault struct {
	flag    string // its name, without dashes
	written string
	text    string
}

func (f *settingFault) Error() string {
	return f.written + " " + f.text
}

// faulted are the flags that the faults are about.
func faulted(faults []error) map[string]bool {
	flags := map[string]bool{}
	for _, fault := range faults {
		var one *settingFault
		if errors.As(fault, &one) {
			flags[one.flag] = true
		}
	}
	return flags
}

// set gives a flag a value. An invalid one leaves the flag as it was: pflag's own types would turn to 0,
// which may be a second fault. The error continues the name of the setting.
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

// mustBe names, for types of pflag's own, the valid values.
var mustBe = map[string]string{
	"int":       "a whole number",
	"float64":   "a number",
	"bool":      "true or false",
	"duration":  "a duration, as in 90s, 10m or 24h (units are ms, s, m and h)",
	"durations": "a list of durations, as in 10s,1m (units are s, m and h)",
}

// stageFaults puts the faults that the stages find in their configurations into the words of the command
// line. A setting in known has been found at fault before, and is not named again;
// what one stage finds in it is named all.
func (c *config) stageFaults(known map[string]bool) []error {
	var faults []error
	for _, stage := range []struct {
		name   string
		faults error
	}{
		{"statsd", c.receiver.Validate()},
		{"push", c.push.Validate()},
		{"groups", c.groups.Validate()},
		{"identity", c.identity.Validate()},
		{"cluster", c.cluster.Validate()},
		{"limit", c.limit.Validate()},
		{"aggregate", c.table.Validate()},
		{"store", c.store.Validate()},
		{"api", c.api.Validate()},
		{"operations", c.operations.Validate()},
	} {
		found := map[string]bool{} // by this stage
		said := map[string]bool{}  // of two listeners with one setting
		for _, fault := range flatten([]error{stage.faults}) {
			var typed *configuration.Fault
			if !errors.As(fault, &typed) {
				faults = append(faults, fmt.Errorf("%s: %w", stage.name, fault))
				continue
			}
			flag := c.flagOf(stage.name, typed.Field)
			if flag == "" {
				faults = append(faults, fmt.Errorf("%s: %w", stage.name, fault))
				continue
			}
			found[flag] = true
			one := c.fault(flag, "%s", typed.Text(c.namer(stage.name)))
			if !known[flag] && !said[one.Error()] {
				faults = append(faults, one)
			}
			said[one.Error()] = true
		}
		maps.Copy(known, found)
	}
	return faults
}

// fault is one of a setting, which it names as the user wrote it.
func (c *config) fault(flag, format string, args ...any) error {
	written := "--" + flag
	if line, ok := c.written[flag]; ok {
		written = line
	}
	return &settingFault{flag, written, fmt.Sprintf(format, args...)}
}

// flagOfField is the flag by which a field of a stage's configuration is set, where they differ.
var flagOfField = map[string]string{
	"statsd.udp.address": "statsd-udp", "statsd.tcp.address": "statsd-tcp",
	"statsd.unixgram.address": "statsd-unixgram", "statsd.unix.address": "statsd-unix",
	"statsd.dialect": "dialect", "statsd.sockets": "statsd-udp-sockets", "statsd.readbuffer": "statsd-read-buffer",
	"statsd.maxconnections": "statsd-max-connections", "statsd.maxconnectionsperaddress": "statsd-max-connections-per-address", "statsd.idletimeout": "statsd-idle-timeout",
	"push.address": "http-address", "push.maxbodybytes": "http-max-body", "push.maxdecompressedbytes": "http-max-decompressed-body", "push.maxconnections": "http-max-connections",
	"push.maxconnsperip": "http-max-connections-per-address",
	"push.auth":          "push-auth", "push.tokenaudience": "push-token-audience", "push.basicauthfile": "push-basic-auth-file",
	"push.allowedhosts": "push-allowed-hosts",
	"push.tlscertfile":  "push-tls-cert-file", "push.tlskeyfile": "push-tls-key-file",
	"push.tlsclientcafile": "push-tls-client-ca-file", "push.tlsclientauth": "push-tls-client-auth",
	"push.groupttl": "http-group-ttl", "push.adminwipe": "http-admin-wipe",
	"groups.maxgroups": "http-max-groups", "groups.maxbytes": "http-max-group-bytes", "groups.namespaceshare": "http-group-namespace-share",
	"identity.defaultnamespace": "default-namespace", "identity.trust": "trust",
	"identity.trustedforwarders": "trusted-forwarders", "identity.externalwriters": "external-writers",
	"cluster.kubeconfig": "kubeconfig", "cluster.objectkinds": "object-kinds",
	"limit.podmetrics": "pod-metrics", "limit.podseries": "pod-series",
	"limit.namespacemetrics": "namespace-metrics", "limit.namespaceseries": "namespace-series",
	"aggregate.windows": "windows", "aggregate.externalttl": "external-ttl", "aggregate.objectttl": "object-ttl",
	"aggregate.maxseries": "max-series", "aggregate.maxbytes": "max-bytes",
	"store.dir": "data-dir", "store.flushinterval": "flush-interval", "store.syncinterval": "sync-interval",
	"store.minfreebytes": "min-free-disk",
	"api.address":        "api-address", "api.certfile": "api-cert-file", "api.keyfile": "api-key-file",
	"api.custommetrics": "api-custom-metrics", "api.externalmetrics": "api-external-metrics",
	"api.discoverylimit": "api-discovery-limit", "api.maxinflight": "api-max-in-flight",
	"operations.address": "ops-address",
}

// flagOf is the flag that sets a stage's field; empty: there is none.
func (c *config) flagOf(stage string, field configuration.Field) string {
	name := string(field)
	if rest, ok := strings.CutPrefix(name, "Listeners["); ok {
		number, inner, _ := strings.Cut(rest, "].")
		name = inner
		if i, err := strconv.Atoi(number); err == nil && i < len(c.receiver.Listeners) && inner == "Address" {
			name = c.receiver.Listeners[i].Network + ".Address"
		}
	}
	return flagOfField[stage+"."+strings.ToLower(name)]
}

// namer renders the fields of a stage as flags.
func (c *config) namer(stage string) func(configuration.Field) string {
	return func(field configuration.Field) string {
		if flag := c.flagOf(stage, field); flag != "" {
			return "--" + flag
		}
		return string(field)
	}
}

// cutField takes a fault apart into its field and what is wrong with it.
func cutField(fault string) (field, text string) {
	fault = strings.TrimPrefix(fault, "--")
	end := strings.IndexAny(fault, ": ,")
	if end < 0 {
		return "", fault
	}
	return fault[:end], strings.TrimLeft(fault[end:], ": ")
}

var oneTone = strings.NewReplacer("; it must not be ", ", want it not to be ", "; it must ", ", want it to ", ", but must ", ", want it to ", "; want ", ", want ", ": want ", ", want ")
