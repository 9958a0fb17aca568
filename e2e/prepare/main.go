// Prepare builds what the end-to-end tests run, so that its minutes do not count against a test's timeout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/e2e/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	paths, err := binaries.Build(ctx, func(what string) { fmt.Println(what) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("control plane %s ready after %s:\n  %s\n  %s\n  %s\n  %s\n", binaries.KubernetesVersion,
		time.Since(start).Round(100*time.Millisecond), paths.Etcd, paths.APIServer, paths.ControllerManager, paths.Kubectl)
}
