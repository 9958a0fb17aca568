package main

import (
	"context"
	"log/slog"
	"time"
)

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
