package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/cobra"
)

// pushOptions are what push was asked for.
type pushOptions struct {
	// StatsD lines.
	statsd  string
	dialect statsd.Dialect
	// One value over HTTP: exactly one of these says its kind.
	gauge, counter, timer, set bool

	http      string
	namespace string
	object    string
	labels    []string
	ttl       lifetime
	sync      bool
	timeout   time.Duration
	shown     credentials
}

const pushLong = `Push sends metrics, in one of two ways.

StatsD lines go out over UDP, after the grammar and the name of each were read as the server would read them, so
that a typo is told at once; what a line is about (sluice_object) only the server can judge. Of lines given as arguments none is sent where one is bad; with "-", lines are read from standard input,
the good ones are sent, within 100ms, and the bad ones named with their number; what was read goes out before
SIGINT or SIGTERM ends it. UDP does not say what became of them.

With --gauge, --counter, --timer or --set, one value is pushed over HTTP to the path that it is read from,
and push prints what the server answered. Who pushes is shown by a token, a name and a password, or a client
certificate, where the server asks for one.`

const pushExample = `  sluice push 'http_requests:1|c' 'latency:32|ms|#zone:a'
  generate | sluice push -
  sluice push --gauge queue_depth 42 -n shop --object deployments.apps/web
  sluice push --counter jobs_done 1 -n shop --label queue=mail --sync
  sluice push --gauge rows 17 -n shop --http https://sluice.example.com:9091 --ca-file ca.crt --token-file token`

func newPush() *cobra.Command {
	o := pushOptions{}
	dialect := &choice{&o.dialect, dialects}
	cmd := &cobra.Command{
		Use:     "push LINE... | push --KIND METRIC VALUE",
		Short:   "Push StatsD lines, or one value over HTTP",
		Long:    pushLong,
		Example: pushExample,
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			if anyUnknown(faults) { // it may have been the one that says what the arguments are
				return usage(faults...)
			}
			if o.overHTTP() {
				return pushValue(cmd, o, args, faults)
			}
			return pushLines(cmd, o, args, faults)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.statsd, "statsd", "127.0.0.1:8125", "host:port that StatsD lines go to")
	flags.Var(dialect, "dialect", "how lines are read before they go out: statsd, dogstatsd, influx, librato or signalfx")
	flags.BoolVar(&o.gauge, "gauge", false, "push over HTTP: set a gauge")
	flags.BoolVar(&o.counter, "counter", false, "push over HTTP: add to a counter")
	flags.BoolVar(&o.timer, "timer", false, "push over HTTP: one observation of a timer")
	flags.BoolVar(&o.set, "set", false, "push over HTTP: one member of a set")
	flags.StringVar(&o.http, "http", "http://127.0.0.1:9091", "address of the HTTP push port, http:// or https://")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object, or of the external metric")
	flags.StringVar(&o.object, "object", "", "what the value describes, <resource>/<name> (default: nothing, the metric is external)")
	flags.StringArrayVarP(&o.labels, "label", "l", nil, "label key=value; may be repeated")
	flags.Var(&o.ttl, "ttl", "how long the series lives after this push, as in 90s, 10m or 24h (default: forever, until it is deleted)")
	flags.BoolVar(&o.sync, "sync", false, "wait until the value is on the server's disk")
	o.shown.bind(flags)
	flags.DurationVar(&o.timeout, "timeout", 15*time.Second, "longest wait for an answer over HTTP")
	return cmd
}

func (o *pushOptions) overHTTP() bool { return o.gauge || o.counter || o.timer || o.set }

// kind is the one kind that was asked for, as the server's "type" parameter.
func (o *pushOptions) kind() (string, error) {
	found := ""
	for _, k := range []struct {
		asked bool
		name  string
	}{{o.gauge, "gauge"}, {o.counter, "counter"}, {o.timer, "timer"}, {o.set, "set"}} {
		if !k.asked {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("--%s and --%s: want one kind", found, k.name)
		}
		found = k.name
	}
	return found, nil
}

// onlyOverHTTP is a fault for each flag that StatsD lines cannot carry.
func (o *pushOptions) onlyOverHTTP(cmd *cobra.Command) []error {
	var faults []error
	for _, name := range append([]string{"http", "namespace", "object", "label", "ttl", "sync"}, credentialFlags()...) {
		if cmd.Flags().Changed(name) {
			faults = append(faults, fmt.Errorf("--%s: wants --gauge, --counter, --timer or --set, for a StatsD line cannot carry it", name))
		}
	}
	return faults
}

var errNothingToPush = errors.New("nothing to push: want StatsD lines, \"-\" for standard input, or --gauge METRIC VALUE")
