package chart

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Each Service leads to the pods that it is for, and to no others; the server's settings agree with the
// agents' arguments, which are flags of "sluice agent".
func TestAgents(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "agent.enabled=true,networkPolicy.enabled=true,config.push-token-audience=metrics"))
	daemons, server := only[*apps.DaemonSet](t, objects), only[*apps.StatefulSet](t, objects)
	pod := daemons.Spec.Template.Spec
	for name, selected := range map[string]map[string]string{"sluice-agent": daemons.Spec.Template.Labels, "sluice-agents": server.Spec.Template.Labels,
		"sluice": server.Spec.Template.Labels, "sluice-api": server.Spec.Template.Labels} {
		selector := labels.SelectorFromSet(byName[*core.Service](t, objects, name).Spec.Selector)
		if toAgent, toServer := selector.Matches(labels.Set(daemons.Spec.Template.Labels)), selector.Matches(labels.Set(server.Spec.Template.Labels)); toAgent == toServer ||
			!selector.Matches(labels.Set(selected)) {
			t.Errorf("the Service %s selects agents: %t, the server: %t", name, toAgent, toServer)
		}
	}
	help, err := os.ReadFile("../../cmd/sluice/testdata/agent_help.txt")
	must(t, err)
	flags := map[string]string{}
	for _, arg := range pod.Containers[0].Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if flags[name] = value; !strings.Contains(string(help), "\n  "+name+" ") {
			t.Errorf("%s is no flag of sluice agent", name)
		}
	}
	host, port, _ := strings.Cut(flags["--server"], ":")
	certificate, authorities := certificateOf(t, byName[*core.Secret](t, objects, "sluice-agents-tls"))
	if _, err := certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: authorities}); err != nil || !strings.HasPrefix(host, "sluice-agents.sluice") {
		t.Errorf("agents refuse the server's certificate as %s: %v", host, err)
	}
	if ports := byName[*core.Service](t, objects, "sluice-agents").Spec.Ports; len(ports) != 1 || fmt.Sprint(ports[0].Port) != port {
		t.Errorf("agents ask for port %s of %v", port, ports)
	}
	if !mounts(pod, flags["--server-ca-file"], "sluice-agents-tls") {
		t.Errorf("%s is not mounted", flags["--server-ca-file"])
	}
	file := fileOf(t, objects)
	if accounts := fmt.Sprint(file["agents-accounts"]); accounts != "[sluice/"+pod.ServiceAccountName+"]" {
		t.Errorf("agents-accounts is %s, agents are %s", accounts, pod.ServiceAccountName)
	}
	for _, setting := range []string{"agents-tls-cert-file", "agents-tls-key-file"} {
		if path := fmt.Sprint(file[setting]); !mounts(server.Spec.Template.Spec, path, "sluice-agents-tls") {
			t.Errorf("%s is %s, which is not mounted", setting, path)
		}
	}
	token := ""
	for _, volume := range pod.Volumes {
		if volume.Projected != nil {
			token = volume.Projected.Sources[0].ServiceAccountToken.Audience
		}
	}
	if token != "metrics" {
		t.Errorf("the agents' token is for %q", token)
	}
	policy := byName[*networking.NetworkPolicy](t, objects, "sluice")
	let := false
	for _, rule := range policy.Spec.Ingress {
		for _, from := range rule.From {
			let = let || from.PodSelector != nil && labels.SelectorFromSet(from.PodSelector.MatchLabels).Matches(labels.Set(daemons.Spec.Template.Labels))
		}
	}
	if !let {
		t.Error("the network policy keeps agents out")
	}
}

// Whoever may not push to the server, or scrape it, may not push to agents, or scrape them.
func TestNetworkPolicyOfAgents(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "agent.enabled=true,networkPolicy.enabled=true,networkPolicy.pushFrom[0].podSelector.matchLabels.push=yes,"+
		"networkPolicy.operationsFrom[0].podSelector.matchLabels.scrape=yes"))
	server := byName[*networking.NetworkPolicy](t, objects, "sluice")
	policy, agents := byName[*networking.NetworkPolicy](t, objects, "sluice-agent"), only[*apps.DaemonSet](t, objects).Spec.Template
	if !labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(labels.Set(agents.Labels)) ||
		!slices.Equal(policy.Spec.PolicyTypes, []networking.PolicyType{networking.PolicyTypeIngress}) {
		t.Errorf("the policy is %+v", policy.Spec)
	}
	for _, port := range agents.Spec.Containers[0].Ports {
		of, at := peersOf(server, port.Name), peersOf(policy, port.Name)
		if len(of) != 1 || fmt.Sprint(at) != fmt.Sprint(of) {
			t.Errorf("%s: agents are reached by %v, the server by %v", port.Name, at, of)
		}
	}
}

// peersOf are the labels of the pods that may connect to a port; nil: none or all may.
func peersOf(policy *networking.NetworkPolicy, port string) (peers []map[string]string) {
	for _, rule := range policy.Spec.Ingress {
		if slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool { return p.Port.String() == port }) {
			for _, from := range rule.From {
				peers = append(peers, from.PodSelector.MatchLabels)
			}
		}
	}
	return peers
}

// Agents know each of several replicas by its address. Those that run while one replica becomes two, or two one, are reached by the name
// that they have: there are both Services, and the certificate is for both.
func TestAgentsOfReplicas(t *testing.T) {
	for set, headless := range map[string]bool{"": false, ",replication.enabled=true": true, ",replicas=2": true} {
		objects := strictly(t, mustRender(t, "", "agent.enabled=true"+set))
		for _, arg := range only[*apps.DaemonSet](t, objects).Spec.Template.Spec.Containers[0].Args {
			if server, is := strings.CutPrefix(arg, "--server="); is && strings.Contains(server, "-headless.") != headless {
				t.Errorf("%q: agents report to %s", set, server)
			}
		}
		certificate, authorities := certificateOf(t, byName[*core.Secret](t, objects, "sluice-agents-tls"))
		for name, address := range map[string]string{"sluice-agents": "", "sluice-agents-headless": core.ClusterIPNone} {
			if service := byName[*core.Service](t, objects, name); service.Spec.ClusterIP != address || !service.Spec.PublishNotReadyAddresses {
				t.Errorf("%q: the Service %s is %+v", set, name, service.Spec)
			}
			if _, err := certificate.Verify(x509.VerifyOptions{DNSName: name + ".sluice.svc", Roots: authorities}); err != nil {
				t.Errorf("%q: agents refuse a server's certificate as %s: %v", set, name, err)
			}
		}
	}
}

// Unix sockets are in a folder of the node, at the same path in the agent, which may write there.
func TestAgentSockets(t *testing.T) {
	pod := only[*apps.DaemonSet](t, strictly(t, mustRender(t, "", "agent.enabled=true,agent.sockets.enabled=true,agent.sockets.folder=/run/push"))).Spec.Template.Spec
	args := strings.Join(pod.Containers[0].Args, " ")
	if !strings.Contains(args, "--statsd-unixgram=/run/push/statsd.sock --statsd-unix=/run/push/statsd-stream.sock") {
		t.Error(args)
	}
	path := ""
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			path = volume.HostPath.Path
		}
	}
	mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == path && !m.ReadOnly })
	if user := pod.Containers[0].SecurityContext.RunAsUser; path != "/run/push" || !mounted || user == nil || *user != 0 {
		t.Errorf("the folder is %q, mounted: %t, of user %v", path, mounted, user)
	}
}

// On ports of the node, which one pod has at a time, an agent ends before the next one starts.
func TestAgentHostPorts(t *testing.T) {
	for _, set := range []string{"true", "false"} {
		daemons := only[*apps.DaemonSet](t, strictly(t, mustRender(t, "", "agent.enabled=true,agent.hostPort="+set)))
		ports := ""
		for _, p := range daemons.Spec.Template.Spec.Containers[0].Ports {
			if p.HostPort != 0 {
				ports += fmt.Sprintf("%s %d on %d %s, ", p.Name, p.ContainerPort, p.HostPort, p.Protocol)
			}
		}
		update := daemons.Spec.UpdateStrategy.RollingUpdate
		got := fmt.Sprintf("%ssurge %s, unavailable %s", ports, update.MaxSurge, update.MaxUnavailable)
		want := map[string]string{"false": "surge 1, unavailable 0",
			"true": "http-push 9091 on 9091 TCP, statsd-tcp 8125 on 8125 TCP, statsd-udp 8125 on 8125 UDP, surge 0, unavailable 1"}[set]
		if got != want {
			t.Errorf("agent.hostPort=%s: %s, want %s", set, got, want)
		}
	}
}

// With the source cgroup, agents read the node's cgroups, read-only, and have nothing for the kubelet.
func TestAgentCgroups(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "agent.enabled=true,resourceMetrics.enabled=true,resourceMetrics.source=cgroup"))
	pod := only[*apps.DaemonSet](t, objects).Spec.Template.Spec
	args := strings.Join(pod.Containers[0].Args, " ")
	if !strings.Contains(args, "--cgroup-folder=/var/run/cgroup") || strings.Contains(args, "kubelet") {
		t.Error(args)
	}
	mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool {
		return m.Name == "cgroup" && m.MountPath == "/var/run/cgroup" && m.ReadOnly
	})
	of := slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool {
		return v.Name == "cgroup" && v.HostPath != nil && v.HostPath.Path == "/sys/fs/cgroup"
	})
	if !mounted || !of || slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "kubelet" }) {
		t.Errorf("the volumes are %+v", pod.Volumes)
	}
	for _, object := range objects {
		if role, is := object.(*rbac.ClusterRole); is && slices.Contains(role.Rules[0].Resources, "nodes/metrics") {
			t.Errorf("the right %s is not needed", role.Name)
		}
	}
}

// Agents need a certificate.
func TestAgentRefusals(t *testing.T) {
	for set, want := range map[string]string{
		"agent.enabled=true,agent.tls.source=secret":              "agent.tls.secret.name",
		"config.agents-address=:1":                                "set agent.enabled",
		"agent.enabled=true,config.agents-insecure=true":          "set agent.enabled",
		"agent.enabled=true,agent.hostPort=true,hostNetwork=true": "agent.hostPort",
	} {
		if text, err := render(t, "", set); err == nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, %s; want a refusal that names %s", set, err, text, want)
		}
	}
}
