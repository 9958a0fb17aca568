// Prepare builds the control plane of the end-to-end tests, so its minutes do not count against the
// timeout of a test. With -keda it builds KEDA's operator and adapter instead; with -cached it only says
// whether an earlier run has built them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/e2e/binaries"
)

func main() {
	keda := flag.Bool("keda", false, "build KEDA's binaries")
	cached := flag.Bool("cached", false, "with -keda: build nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	prepare := controlPlane
	switch {
	case *keda && *cached:
		prepare = cachedKEDA
	case *keda:
		prepare = kedaBinaries
	}
	start := time.Now()
	paths, err := prepare(ctx)
	if errors.Is(err, binaries.ErrNotBuilt) {
		fmt.Println("tests skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("ready after %s:\n  %s\n", time.Since(start).Round(100*time.Millisecond), strings.Join(paths, "\n  "))
}

func report(text string) { fmt.Println(text) }

func controlPlane(ctx context.Context) ([]string, error) {
	fmt.Println("control plane " + binaries.KubernetesVersion)
	b, err := binaries.Build(ctx, report)
	return []string{b.Etcd, b.APIServer, b.ControllerManager, b.Kubectl}, err
}

func cachedKEDA(ctx context.Context) ([]string, error) {
	b, err := binaries.CachedKEDA(ctx)
	return []string{b.Operator, b.Adapter}, err
}

func kedaBinaries(ctx context.Context) ([]string, error) {
	fmt.Println("KEDA " + binaries.KEDAVersion)
	b, err := binaries.BuildKEDA(ctx, report)
	return []string{b.Operator, b.Adapter}, err
}
