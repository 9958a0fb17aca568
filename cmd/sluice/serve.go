package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/spf13/cobra"
)

const serveLong = `Serve receives metrics, keeps their windows and serves the metrics APIs.

A setting has the value of its flag; without one, that of the file named by --config; without either, its default. The file is YAML, and its keys are the flags' names without the dashes.

Under a cgroup memory limit (a container's limit), the defaults of max-series, max-bytes and http-max-group-bytes are lowered to fit it, and Go's memory limit is set. The log shows the bounds at start. The variable GOMEMLIMIT overrides Go's limit.`

func newServe() *cobra.Command {
	cfg, file, printExample := defaultConfig(), "", false
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the server",
		Long:    serveLong,
		Example: "  sluice serve --standalone --data-dir ./data\n  sluice serve --config /etc/sluice/sluice.yaml\n  sluice serve --kubeconfig ~/.kube/config --data-dir ./data",
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			faults = append(faults, command.NoneOf(args)...)
			if printExample {
				if err := command.Usage(faults...); err != nil {
					return err
				}
				_, err := fmt.Fprint(cmd.OutOrStdout(), exampleConfig())
				return err
			}
			if file != "" {
				written, inFile := readConfigFile(file, cmd.Flags())
				cfg.written, faults = written, append(faults, inFile...)
			}
			if limit, limited := cgroupMemoryLimit("/"); limited {
				cfg.fitMemory(limit, func(flag string) bool { return cmd.Flags().Changed(flag) || cfg.written[flag] != "" })
			}
			cfg.complete()
			if err := cfg.validate(faults...); err != nil {
				return err
			}
			return serve(cmd, cfg)
		}),
	}
	command.UnderHeading(cmd.Flags(), "Configuration file", func() {
		cmd.Flags().StringVar(&file, "config", "", "YAML file of settings.")
		cmd.Flags().BoolVar(&printExample, "print-example-config", false,
			"Print a configuration file with every setting at its default, and exit.")
	})
	cfg.bind(cmd.Flags())
	return cmd
}

// serve runs until the first signal, or until a stage fails. A second signal ends the process at
// once.
func serve(cmd *cobra.Command, cfg *serverConfig) error {
	ctx, release := untilSignal(cmd.Context())
	defer release()

	log := newLogger(cmd.ErrOrStderr(), cfg.log)
	for _, warning := range cfg.warnings() {
		log.Warn(warning)
	}
	cfg.boundMemory(log)
	path, err := wire(ctx, cfg, log)
	if errors.Is(err, errStopped) {
		log.Info(err.Error())
		return nil
	}
	if faultySetting(err) != "" { // the file that a setting names
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	tuneCollector()
	if cfg.standalone {
		fmt.Fprint(cmd.OutOrStdout(), path.banner())
	} else {
		log.Info("listening", "on", strings.Join(path.listening(), ", "))
	}
	return path.run(ctx)
}

// untilSignal returns a context that ends with the first SIGTERM, SIGINT or SIGHUP. A second
// SIGTERM or SIGINT then ends the process at once. A second SIGHUP does not: a terminal that is
// closed sends two, one by the kernel and one by the shell. A SIGHUP that is ignored, as under
// nohup, stays ignored.
//
// A write to stderr or stdout fails once the reader is gone, and has no other effect: without a
// listener for SIGPIPE, Go would end the process.
func untilSignal(parent context.Context) (ctx context.Context, release func()) {
	hangUp, brokenPipe := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangUp, syscall.SIGHUP)
	}
	parent, cancel := context.WithCancel(parent)
	ctx, stop := signal.NotifyContext(parent, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // from then on these signals have their default effect
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		select {
		case <-hangUp:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-listened
		signal.Stop(hangUp)
		signal.Stop(brokenPipe)
	}
}

// newLogger logs to out, in the configured format.
func newLogger(out io.Writer, cfg logConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.level}
	if cfg.format == "json" {
		options.ReplaceAttr = spellDurations
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// spellDurations writes durations as the text format does, "1.5s", rather than as nanoseconds.
func spellDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// afterDelay returns a context that ends a delay after ctx. Meanwhile the server goes on, and
// /readyz fails, so that load balancers and kube-proxy lead traffic elsewhere before the sockets
// close: kube-proxy keeps a UDP flow at a pod that is terminating as long as the pod is ready.
func afterDelay(ctx context.Context, delay time.Duration, log *slog.Logger) (later context.Context, release func()) {
	if delay == 0 {
		return ctx, func() {}
	}
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		log.Info("stopping after a delay", "delay", delay)
		time.AfterFunc(delay, cancel)
	})
	return later, func() {
		stop()
		cancel()
	}
}
