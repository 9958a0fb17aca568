package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const serveLong = `Serve receives metrics, keeps their windows and serves the metrics APIs.

What is set, in rising order: the defaults below, the file named by --config, flags. The file is YAML; its
keys are the flags' names without the dashes.

Where a cgroup limits memory (a container's limit), the defaults of max-series, max-bytes and http-max-group-bytes
and Go's memory limit are lowered to fit it. The log says at start which bounds hold. A flag or the file
overrides each of the three; the variable GOMEMLIMIT overrides Go's.`

func newServe() *cobra.Command {
	cfg, file, printExample := defaultConfig(), "", false
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the server",
		Long:    serveLong,
		Example: "  sluice serve --standalone --data-dir ./data\n  sluice serve --config /etc/sluice/sluice.yaml\n  sluice serve --kubeconfig ~/.kube/config --data-dir ./data",
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			faults = append(faults, noneOf(args)...)
			if printExample {
				if err := usage(faults...); err != nil {
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
	cmd.Flags().StringVar(&file, "config", "", "YAML file of settings")
	cmd.Flags().BoolVar(&printExample, "print-example-config", false, "print a configuration file with every setting at its default, and end")
	cfg.bind(cmd.Flags())
	return cmd
}

// serve runs until the first signal, or until a part fails. A second signal ends the process at once.
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
