// Prepare builds the control plane of the end-to-end tests, so its minutes do not count against the
// timeout of a test.
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
	paths, err := binaries.Build(ctx, func(text string) { fmt.Println(text) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("control plane %s is ready after %s:\n  %s\n  %s\n  %s\n  %s\n", binaries.KubernetesVersion,
		time.Since(start).Round(100*time.Millisecond), paths.Etcd, paths.APIServer, paths.ControllerManager, paths.Kubectl)
}
