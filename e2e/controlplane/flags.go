package controlplane

import (
	"fmt"
	"path/filepath"
	"strings"
)

// controllers are the controllers that the tests need. The Kubelet replaces the scheduler.
// Endpoints may not have addresses of 127.0.0.0/8, so there is no endpoints controller.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"deployment-controller",
	"garbage-collector-controller",
	"horizontal-pod-autoscaler-controller",
	"namespace-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
}

func (c *ControlPlane) etcdFlags() []string {
	clients, peers := "http://"+c.ports.etcd, "http://"+c.ports.etcdPeers
	return []string{
		"--data-dir=" + filepath.Join(c.folder, "etcd"),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers,
		"--unsafe-no-fsync", "--log-level=warn",
	}
}

func (c *ControlPlane) apiServerFlags() []string {
	host, port := splitPort(c.ports.apiServer)
	return append(c.featureGates(), []string{
		"--etcd-servers=http://" + c.ports.etcd,
		"--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + port,
		"--tls-cert-file=" + c.files.serving.Certificate, "--tls-private-key-file=" + c.files.serving.Key,
		"--cert-dir=" + c.folder,
		"--client-ca-file=" + c.files.ca,
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount", // pods need no service account
		"--allow-privileged",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none",

		"--requestheader-client-ca-file=" + c.files.frontProxyCA,
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.files.frontProxy.Certificate, "--proxy-client-key-file=" + c.files.frontProxy.Key,

		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.files.serviceAccounts.public,
		"--service-account-signing-key-file=" + c.files.serviceAccounts.key,
	}...)
}

func (c *ControlPlane) featureGates() []string {
	if c.cfg.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + c.cfg.FeatureGates}
}

func (c *ControlPlane) controllerManagerFlags() []string {
	host, port := splitPort(c.ports.controllerManager)
	flags := c.featureGates()
	if qps := c.cfg.ControllerQPS; qps > 0 {
		flags = append(flags, fmt.Sprintf("--kube-api-qps=%d", qps), fmt.Sprintf("--kube-api-burst=%d", 2*qps),
			"--concurrent-horizontal-pod-autoscaler-syncs=20")
	}
	return append(flags, []string{
		"--kubeconfig=" + c.files.controllerManager,
		"--bind-address=" + host, "--secure-port=" + port,
		"--tls-cert-file=" + c.files.serving.Certificate, "--tls-private-key-file=" + c.files.serving.Key,
		"--leader-elect=false",
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials", // so that the autoscaler has the same user as in a cluster
		"--service-account-private-key-file=" + c.files.serviceAccounts.key,
		"--root-ca-file=" + c.files.ca,
		"--horizontal-pod-autoscaler-sync-period=" + c.cfg.HPASync.String(),
		"--horizontal-pod-autoscaler-downscale-stabilization=" + c.cfg.DownscaleStabilization.String(),
	}...)
}
