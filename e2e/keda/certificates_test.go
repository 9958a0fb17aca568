package keda

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/server"
)

const (
	refused = "sluice_keda_refused_connections_total"
	expires = "sluice_keda_certificate_expires_timestamp_seconds"
)

// A client certificate of another authority, or with another name, opens nothing, and the operator
// says so. The right one does, without a restart.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	s := prepare(t, "foreign")
	foreign, err := certificate.New(t.TempDir(), "foreign")
	must(t, err)
	s.push(t, jobs(35))
	for i, show := range []func(){
		func() { s.credentials(t, foreign, operatorName, time.Hour) },
		func() { s.credentials(t, s.authority, "web.shop.svc", time.Hour) },
	} {
		show()
		before := s.sluice.Metrics()[refused]
		s.scale(t, scaledObject{2 + i, 5, []string{s.trigger(`metric: "jobs:last"`, `absent: "0"`)}})
		server.Within(t, func() string {
			if now := s.sluice.Metrics()[refused]; now <= before {
				return fmt.Sprintf("%v connections were refused\n%s", now-before, s.state(t))
			}
			return ""
		})
		s.steady(t, 0, 4*time.Second)
	}
	s.awaitReady(t, "False")
	s.credentials(t, s.authority, operatorName, time.Hour)
	s.scaleByPush(t, 5, 5) // the operator reads the Secret of a trigger that never worked with another generation only
	s.awaitReplicas(t, 4)
}

// An operator whose certificate ends while it is connected keeps its connection. After a restart of
// the server it is refused until its Secret has a new one. Then polls work again, and the stream does once
// the ScaledObject has changed.
func TestClientCertificateEnds(t *testing.T) {
	t.Parallel()
	s := prepare(t, "ends")
	s.credentials(t, s.authority, operatorName, 20*time.Second)
	end := time.Now().Add(21 * time.Second)
	s.scaleByPush(t, 3, 3)
	time.Sleep(time.Until(end))
	s.wokenByStream(t, jobs(1))
	s.push(t, jobs(0))
	s.awaitReplicas(t, 0)

	s.sluice.Stop()
	s.sluice.Start()
	server.Within(t, func() string {
		if s.sluice.Metrics()[refused] == 0 {
			return "no connection was refused\n" + s.state(t)
		}
		return ""
	})
	s.steady(t, 0, 3*time.Second)
	s.credentials(t, s.authority, operatorName, time.Hour)
	t.Logf("after the push: %s", s.woken(t, pushed, func() { s.push(t, jobs(35)) }))
	s.awaitReplicas(t, 4)
	// The operator opens no stream with the new certificate, until it reads the ScaledObject anew (KEDA 2.21:
	// the stream's connection belongs to scalers with the old one). So it needs a restart, or a change.
	s.push(t, jobs(0))
	s.awaitReplicas(t, 0)
	s.scaleByPush(t, 300, 3)
	s.woken(t, pushed, func() { s.push(t, jobs(1)) })
}

// A new server certificate is used for new connections, without a restart.
func TestServerCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	s := prepare(t, "renewed")
	s.scaleByPush(t, 3, 3)
	before := s.sluice.Metrics()[expires]
	s.serverCertificate(t, 3*time.Hour)
	server.Within(t, func() string {
		if now := s.sluice.Metrics()[expires]; now < before+3600 {
			return fmt.Sprintf("the certificate ends at %.0f, before the reload at %.0f", now, before)
		}
		return ""
	})
	s.wokenByStream(t, jobs(1))
	s.push(t, jobs(0))
	s.awaitReplicas(t, 0)
	s.scaleByPush(t, 4, 3)
	s.wokenByStream(t, jobs(1))
}
