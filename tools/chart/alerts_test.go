package chart

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// input is a series by its selector, with its samples a minute apart, as promtool writes them:
// "0+1x60" rises by 1 for an hour.
type input map[string]string

// alertCase is a series of samples after which an alert fires at minute 40, and one after which it
// does not.
type alertCase struct {
	alert          string
	firing, silent input
	// labels are those of the alert beside its severity; annotations are those with a template, as
	// they read then.
	labels, annotations map[string]string
}

const (
	steady = "1x60"
	rising = "0+1x60"
	none   = "0x60"
	// evaluated at 40 minutes
	inDays3, inDays30 = "261600x60", "2594400x60"
)

// scraped are the labels of one replica's scrape.
const scraped = `job="sluice",namespace="sluice",pod="sluice-0",instance="10.0.0.7:8080"`

func of(extra ...string) string { return "{" + strings.Join(append(extra, scraped), ",") + "}" }

// target are the labels of an alert that keeps those of the scrape; more are pairs of name and
// value.
func target(more ...string) map[string]string {
	labels := map[string]string{"job": "sluice", "namespace": "sluice", "pod": "sluice-0", "instance": "10.0.0.7:8080"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// release labels are those of an alert that adds up replicas.
func ofRelease(more ...string) map[string]string {
	labels := target(more...)
	delete(labels, "pod")
	delete(labels, "instance")
	return labels
}

var alertCases = []alertCase{
	{
		alert: "SluiceAbsent", silent: input{"sluice_store_persisting" + of(): none},
		firing: input{"sluice_store_persisting" + of(): "1x5 _x60", `sluice_build_info{job="sluice/sluice-agent",namespace="sluice",pod="sluice-agent-x"}`: steady},
	},
	{
		alert: "SluiceNotPersisting", labels: target(),
		firing: input{"sluice_store_persisting" + of(): none}, silent: input{"sluice_store_persisting" + of(): "1x38 0 0 1x20"},
	},
	{
		alert: "SluiceStoreLag", labels: target(), annotations: map[string]string{"summary": "Sluice's disk is 7s behind"},
		firing: input{"sluice_store_lag_seconds" + of(): "7x60"}, silent: input{"sluice_store_lag_seconds" + of(): "4x60"},
	},
	{
		alert: "SluiceStoreSetAside", labels: target(),
		firing: input{"sluice_store_set_aside_total" + of(): steady}, silent: input{"sluice_store_set_aside_total" + of(): none},
	},
	{
		alert: "SluiceKernelDrops", labels: target("receiver", "udp"),
		annotations: map[string]string{"summary": "The kernel drops datagrams of udp before Sluice reads them"},
		firing:      input{"sluice_kernel_drops_total" + of(`receiver="udp"`): rising}, silent: input{"sluice_kernel_drops_total" + of(`receiver="udp"`): "9x60"},
	},
	{
		alert: "SluiceSeriesNearLimit", labels: target(),
		firing: input{"sluice_series" + of(): "950x60", "sluice_series_limit" + of(): "1000x60"},
		silent: input{"sluice_series" + of(): "900x60", "sluice_series_limit" + of(): "1000x60"},
	},
	{
		alert: "SluiceSeriesNearLimit", labels: target(),
		firing: input{"sluice_series" + of(): "480x60", "sluice_replica_series" + of(`origin="sluice-1"`): "450x60", "sluice_series_limit" + of(): "1000x60"},
		silent: input{"sluice_series" + of(): "480x60", "sluice_replica_series" + of(`origin="sluice-1"`): "400x60", "sluice_series_limit" + of(): "1000x60"},
	},
	{
		alert: "SluiceMemoryPressure", labels: target(),
		firing: input{"sluice_memory_pressure" + of(): "1x60"}, silent: input{"sluice_memory_pressure" + of(): "0x10 1x4 0x50"},
	},
	{
		alert: "SluiceRejects", labels: map[string]string{"reason": "limit"},
		annotations: map[string]string{"summary": "Over 5 % of the samples are rejected as limit"},
		firing: input{"sluice_samples_rejected_total" + of(`reason="limit"`): "0+6x60", "sluice_samples_rejected_total" + of(`reason="ignored"`): "0+90x60",
			"sluice_samples_received_total" + of(`receiver="udp"`): "0+100x60"},
		silent: input{"sluice_samples_rejected_total" + of(`reason="limit"`): "0+4x60", "sluice_samples_received_total" + of(`receiver="udp"`): "0+100x60"},
	},
	{
		alert: "SluiceAPIErrors", labels: map[string]string{},
		firing: input{"sluice_api_requests_total" + of(`code="503"`): rising}, silent: input{"sluice_api_requests_total" + of(`code="404"`): rising},
	},
	{
		alert:  "SluiceAutoscalerMetricMissing",
		labels: ofRelease("hpa", "web", "metric", "busy", "exported_namespace", "shop"),
		annotations: map[string]string{
			"summary":     "The autoscaler web gets no value for busy",
			"description": "It is in namespace shop. An autoscaler\nthat lacks a metric does not scale down, and without any metric not at all. The Event MetricMissing on it says why.",
		},
		firing: input{"sluice_autoscaler_metric_missing" + of(`hpa="web"`, `metric="busy"`, `exported_namespace="shop"`): steady},
		silent: input{"sluice_autoscaler_metric_missing" + of(`hpa="web"`, `metric="busy"`, `exported_namespace="shop"`): "1x30 0x5 1x4 0x20"},
	},
	{
		alert:  "SluiceAutoscalerHeldBack",
		labels: ofRelease("hpa", "web", "metric", "busy", "exported_namespace", "shop"),
		annotations: map[string]string{
			"summary":     "Pods without a value of busy hold the autoscaler web back",
			"description": "It is in namespace shop. Pods that\npush nothing, or whose series a limit rejects, change or may change what it decides. The Event MetricHeldBack on it names them.",
		},
		firing: input{"sluice_autoscaler_metric_held_back" + of(`hpa="web"`, `metric="busy"`, `exported_namespace="shop"`): steady},
		silent: input{"sluice_autoscaler_metric_held_back" + of(`hpa="web"`, `metric="busy"`, `exported_namespace="shop"`): "1x20 0x5 1x14 0x20"},
	},
	{
		alert: "SluiceSlowPushers", labels: target(),
		firing: input{"sluice_slow_pusher_reads_total" + of(): "0+1x90"}, silent: input{"sluice_slow_pusher_reads_total" + of(): "5x90"},
	},
	{
		alert: "SluiceClusterIncomplete", labels: target(),
		firing: input{"sluice_cluster_synced" + of(): none}, silent: input{"sluice_cluster_synced" + of(): steady},
	},
	{
		alert: "SluiceClusterUnanswered", labels: ofRelease("resource", "pods"),
		annotations: map[string]string{"summary": "The API server does not answer Sluice about pods"},
		firing:      input{"sluice_cluster_unanswered_seconds" + of(`resource="pods"`): "0+60x60"}, silent: input{"sluice_cluster_unanswered_seconds" + of(`resource="pods"`): "50x60"},
	},
	{
		alert: "SluiceTargetsFailing", labels: ofRelease("state", "failing"),
		annotations: map[string]string{"summary": "3 endpoints that pods announce are failing"},
		firing:      input{"sluice_scrape_targets" + of(`state="failing"`): "3x60", "sluice_scrape_targets" + of(`state="up"`): "5x60"},
		silent:      input{"sluice_scrape_targets" + of(`state="failing"`): "3x20 0x5 1x14 0x20", "sluice_scrape_targets" + of(`state="up"`): "5x60"},
	},
	{
		alert: "SluicePendingRejected", labels: target(),
		firing: input{"sluice_pending_expired_total" + of(): rising, "sluice_pending_full_total" + of(): none},
		silent: input{"sluice_pending_expired_total" + of(): "3x60", "sluice_pending_full_total" + of(): none},
	},
	{
		alert: "SluiceLimitReached", labels: ofRelease("exported_namespace", "shop"),
		annotations: map[string]string{"summary": "New series are rejected by a limit of namespace shop"},
		firing:      input{"sluice_limit_refusals_total" + of(`exported_namespace="shop"`): rising}, silent: input{"sluice_limit_refusals_total" + of(`exported_namespace="shop"`): "9x60"},
	},
	{
		alert: "SluiceConnectionsRefused", labels: ofRelease("listener", "tcp"), annotations: map[string]string{"summary": "Sluice refuses connections to tcp"},
		firing: input{"sluice_connections_refused_total" + of(`listener="tcp"`): rising}, silent: input{"sluice_connections_refused_total" + of(`listener="tcp"`): none},
	},
	{
		alert: "SluiceCredentialsUnchecked", labels: ofRelease(),
		firing: input{"sluice_http_credentials_total" + of(`result="unavailable"`): rising}, silent: input{"sluice_http_credentials_total" + of(`result="unknown"`): rising},
	},
	{
		alert: "SluiceCredentialsUnchecked", labels: ofRelease(),
		firing: input{"sluice_http_rights_asked_total" + of(`answer="unavailable"`): rising}, silent: input{"sluice_http_rights_asked_total" + of(`answer="denied"`): rising},
	},
	{
		alert: "SluiceCertificateEnds", labels: target(), annotations: map[string]string{"summary": "The certificate of HTTP push ends in 3d 0h 0m 0s"},
		firing: input{"sluice_http_certificate_expires_timestamp_seconds" + of(): inDays3}, silent: input{"sluice_http_certificate_expires_timestamp_seconds" + of(): inDays30},
	},
	{
		alert: "SluiceAPICertificateEnds", labels: target(), annotations: map[string]string{"summary": "The certificate of Sluice's metrics APIs ends in 3d 0h 0m 0s"},
		firing: input{"sluice_api_certificate_expires_timestamp_seconds" + of(): inDays3}, silent: input{"sluice_api_certificate_expires_timestamp_seconds" + of(): inDays30},
	},
	{
		alert: "SluiceExportLoses", labels: ofRelease("target", "udp://a:8125"),
		annotations: map[string]string{"summary": "Sluice loses what it should pass on to udp://a:8125"},
		firing:      input{"sluice_relay_lines_total" + of(`outcome="dropped"`, `target="udp://a:8125"`): rising},
		silent:      input{"sluice_relay_lines_total" + of(`outcome="sent"`, `target="udp://a:8125"`): rising},
	},
	{
		alert: "SluiceExportLoses", labels: ofRelease(), annotations: map[string]string{"summary": "Sluice loses what it should pass on"},
		firing: input{"sluice_export_otlp_series_total" + of(`outcome="lost"`): rising}, silent: input{"sluice_export_otlp_series_total" + of(`outcome="sent"`): rising},
	},
	{
		alert: "SluiceReplicasApart", labels: target(),
		firing: input{"sluice_replica_origins" + of(): none, "sluice_build_info" + of(): steady, `sluice_build_info{job="sluice",namespace="sluice",pod="sluice-1"}`: steady},
		silent: input{"sluice_replica_origins" + of(): steady, "sluice_build_info" + of(): steady, `sluice_build_info{job="sluice",namespace="sluice",pod="sluice-1"}`: steady},
	},
	{
		alert: "SluiceReplicaStandsStill", labels: target("origin", "sluice-1"), annotations: map[string]string{"summary": "Nothing is heard from the replica sluice-1 of Sluice"},
		firing: input{"sluice_replica_standing_still" + of(`origin="sluice-1"`): steady}, silent: input{"sluice_replica_standing_still" + of(`origin="sluice-1"`): none},
	},
	{
		alert: "SluiceReplicaCutOff", labels: target("origin", "sluice-1"), annotations: map[string]string{"summary": "The link between two replicas of Sluice is cut"},
		firing: input{"sluice_replica_cut_off" + of(`origin="sluice-1"`): steady}, silent: input{"sluice_replica_cut_off" + of(`origin="sluice-1"`): none},
	},
	{
		alert: "SluiceReplicaLag", labels: target("origin", "sluice-1"), annotations: map[string]string{"summary": "What is known of the replica sluice-1 is 4s old"},
		firing: input{"sluice_replica_lag_seconds" + of(`origin="sluice-1"`): "4x60", "sluice_replica_standing_still" + of(`origin="sluice-1"`): none},
		silent: input{"sluice_replica_lag_seconds" + of(`origin="sluice-1"`): "4x60", "sluice_replica_standing_still" + of(`origin="sluice-1"`): steady},
	},
	{
		alert: "SluiceReplicaResyncs", labels: target("origin", "sluice-1"), annotations: map[string]string{"summary": "Messages of the replica sluice-1 are lost all the time"},
		firing: input{"sluice_replica_gaps_total" + of(`origin="sluice-1"`): "0+9x60"}, silent: input{"sluice_replica_gaps_total" + of(`origin="sluice-1"`): "0+3x60"},
	},
	{
		alert: "SluiceReplicaRejects", labels: target("reason", "version"), annotations: map[string]string{"summary": "Messages between replicas are rejected as version"},
		firing: input{"sluice_replica_rejected_total" + of(`reason="version"`): rising}, silent: input{"sluice_replica_rejected_total" + of(`reason="version"`): "9x60"},
	},
	{
		alert: "SluiceReplicaRefuses", labels: target(),
		firing: input{"sluice_replica_refused_connections_total" + of(): rising}, silent: input{"sluice_replica_refused_connections_total" + of(): "9x60"},
	},
	{
		alert: "SluiceReplicaCertificateEnds", labels: target(), annotations: map[string]string{"summary": "The certificate between replicas ends in 3d 0h 0m 0s"},
		firing: input{"sluice_replica_certificate_expires_timestamp_seconds" + of(): inDays3}, silent: input{"sluice_replica_certificate_expires_timestamp_seconds" + of(): inDays30},
	},
	{
		alert: "SluiceAgentCutOff", labels: target(),
		firing: input{"sluice_agent_connected" + of(): "0x60"}, silent: input{"sluice_agent_connected" + of(): "1x60"},
	},
	{
		alert: "SluiceAgentDrops", labels: target(),
		firing: input{"sluice_agent_samples_dropped_total" + of(): rising}, silent: input{"sluice_agent_samples_dropped_total" + of(): "9x60"},
	},
	{
		alert: "SluiceAgentsCertificateEnds", labels: target(), annotations: map[string]string{"summary": "The certificate of Sluice's port for agents ends in 3d 0h 0m 0s"},
		firing: input{"sluice_agents_certificate_expires_timestamp_seconds" + of(): inDays3}, silent: input{"sluice_agents_certificate_expires_timestamp_seconds" + of(): inDays30},
	},
	{
		alert: "SluiceUsageFails", labels: target("result", "failed"),
		firing: input{"sluice_agent_kubelet_requests_total" + of(`result="failed"`): rising},
		silent: input{"sluice_agent_kubelet_requests_total" + of(`result="ok"`): rising},
	},
	{
		alert: "SluiceProviderFails", labels: ofRelease("provider", "keda"),
		annotations: map[string]string{"summary": "The provider keda of external metrics gives Sluice no values"},
		firing:      input{"sluice_route_requests_total" + of(`provider="keda"`, `result="unreachable"`): rising},
		silent: input{"sluice_route_requests_total" + of(`provider="keda"`, `result="failed"`): rising, "sluice_route_up" + of(`provider="keda"`): "1x60",
			"sluice_route_requests_total" + of(`provider="keda"`, `result="not_found"`): rising},
	},
	{
		alert: "SluiceKEDAFails", labels: ofRelease("method", "GetMetrics", "code", "Unavailable"),
		annotations: map[string]string{"summary": "Sluice answers KEDA's GetMetrics with Unavailable"},
		firing:      input{"sluice_keda_requests_total" + of(`method="GetMetrics"`, `code="Unavailable"`): rising},
		silent: input{"sluice_keda_requests_total" + of(`method="GetMetrics"`, `code="NotFound"`): rising, "sluice_keda_requests_total" + of(`method="GetMetrics"`, `code="OK"`): rising,
			"sluice_keda_requests_total" + of(`method="StreamIsActive"`, `code="Canceled"`): rising},
	},
	{
		alert: "SluiceKEDARefuses", labels: target(),
		firing: input{"sluice_keda_refused_connections_total" + of(): rising}, silent: input{"sluice_keda_refused_connections_total" + of(): "9x60"},
	},
	{
		alert: "SluiceKEDACertificateEnds", labels: target(), annotations: map[string]string{"summary": "The certificate of Sluice's port for KEDA ends in 3d 0h 0m 0s"},
		firing: input{"sluice_keda_certificate_expires_timestamp_seconds" + of(): inDays3}, silent: input{"sluice_keda_certificate_expires_timestamp_seconds" + of(): inDays30},
	},
}

// TestAlertsFire evaluates each alert with Prometheus' own tool: it fires where it should, with the
// annotations as somebody reads them, and is silent where it should be.
func TestAlertsFire(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is missing (Debian's package prometheus has it)")
	}
	var rules []monitoring.Rule
	must(t, yaml.UnmarshalStrict([]byte(read(t, folder+"/alerts.yaml")), &rules))
	byName := map[string]monitoring.Rule{}
	for _, rule := range rules {
		byName[rule.Alert] = rule
	}
	tried := map[string]bool{}
	var tests []map[string]any
	for _, c := range alertCases {
		rule, ok := byName[c.alert]
		if !ok {
			t.Errorf("%s is no alert", c.alert)
			continue
		}
		tried[c.alert] = true
		tests = append(tests, c.test("fires", c.firing, c.expected(rule)), c.test("is silent", c.silent, []any{}))
	}
	for name := range byName {
		if !tried[name] {
			t.Errorf("%s is never evaluated", name)
		}
	}
	dir := t.TempDir()
	write(t, dir, "rules.yaml", map[string]any{"groups": []any{map[string]any{"name": "sluice", "rules": rules}}})
	write(t, dir, "tests.yaml", map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	command := exec.Command("promtool", "test", "rules", "tests.yaml")
	command.Dir = dir
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func write(t *testing.T, dir, name string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
	}
	must(t, err)
}

// expected is the alert as it fires.
func (c *alertCase) expected(rule monitoring.Rule) []any {
	labels, annotations := maps.Clone(rule.Labels), maps.Clone(rule.Annotations)
	maps.Copy(labels, c.labels)
	maps.Copy(annotations, c.annotations)
	return []any{map[string]any{"exp_labels": labels, "exp_annotations": annotations}}
}

func (c *alertCase) test(name string, series input, expected []any) map[string]any {
	var inputs []any
	for selector, values := range series {
		inputs = append(inputs, map[string]string{"series": selector, "values": values})
	}
	at := "40m"
	if c.alert == "SluiceSlowPushers" { // looks back for half an hour, and waits for another
		at = "65m"
	}
	return map[string]any{
		"name": c.alert + " " + name, "interval": "1m", "input_series": inputs,
		"alert_rule_test": []any{map[string]any{"eval_time": at, "alertname": c.alert, "exp_alerts": expected}},
	}
}
