package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// worker is a ScaledObject that works: a queue from zero, scaled to two.
func worker() *ScaledObjectFacts {
	hpa := shop()
	hpa.Autoscaler = inspect.Autoscaler{
		Namespace: "shop", Name: "keda-hpa-worker", ScaledObject: "worker", TargetKind: "Deployment", TargetName: "worker",
		MinReplicas: 1, MaxReplicas: 20, CurrentReplicas: 2,
		Metrics: []inspect.AutoscalerMetric{
			{Source: "External", Name: "s0-jobs-waiting-last", Selector: "scaledobject.keda.sh/name=worker", TargetType: "AverageValue", Target: "10"},
		},
	}
	hpa.Scale = &Scale{SpecReplicas: 2, StatusReplicas: 2}
	hpa.Pods = []inspect.TargetPod{running("worker-1"), running("worker-2")}
	hpa.Readings = []Reading{{Asked: true, Values: []Value{value("s0-jobs-waiting-last", 35)}}}
	ofKEDA := API{Exists: true, Available: true, Service: "keda/keda-operator-metrics-apiserver:443", Owner: "KEDA"}
	hpa.APIs[ExternalGroup] = ofKEDA
	return &ScaledObjectFacts{
		Now: noon, Namespace: "shop", Name: "worker", TargetKind: "Deployment", TargetName: "worker", MaxReplicas: 20,
		AutoscalerName: "keda-hpa-worker", Autoscaler: hpa, External: &ofKEDA,
		Conditions: []inspect.AutoscalerCondition{{Type: "Ready", Status: "True"}, {Type: "Active", Status: "True"}},
		Triggers: []TriggerFacts{{
			Type: "external-push", Address: "dns:///sluice-keda.sluice.svc:9095", Authentication: "ClusterTriggerAuthentication/sluice",
			Asks: TriggerQuestion{Metric: "jobs_waiting:last", Object: "external", Selector: "queue=mail", Target: 10, AbsentIsZero: true},
		}},
		Metrics: []inspect.Metric{
			{Namespace: "shop", Name: "jobs_waiting", Kind: "gauge", Series: 2, LastSample: noon.Add(-3 * time.Second)},
			{Namespace: "shop", Name: "http_requests", Resource: "pods", Kind: "counter", Objects: 3, Series: 3},
			{Namespace: "billing", Name: "invoices", Kind: "gauge", Series: 1},
		},
	}
}

// unmade takes the autoscaler away: KEDA makes none while a trigger gives it no metric.
func unmade(f *ScaledObjectFacts) {
	f.AutoscalerName, f.Autoscaler = "", nil
	f.Conditions = []inspect.AutoscalerCondition{
		{Type: "Ready", Status: "False", Reason: "ScaledObjectCheckFailed",
			Message: "failed to ensure HPA is correctly created for ScaledObject: no metric specs returned from scalers for ScaledObject shop/worker"},
		{Type: "Active", Status: "Unknown"},
	}
}

// refusedWith gives KEDA an error instead of the value.
func refusedWith(f *ScaledObjectFacts, message string) {
	f.Autoscaler.Readings = []Reading{{Asked: true, Code: 500, Fault: message}}
}

// event puts an Event of KEDA on the ScaledObject.
func event(f *ScaledObjectFacts, message string) {
	f.Events = []ObjectEvent{{Reason: "KEDAScalerFailed", Message: message, Warning: true, Count: 4, Last: noon.Add(-time.Minute)}}
}

// absentIsError makes the absence of the metric an error, as by default.
func absentIsError(f *ScaledObjectFacts, metric string) {
	f.MinReplicas = 1
	f.Triggers[0].Asks.AbsentIsZero, f.Triggers[0].Asks.Metric, f.Triggers[0].Asks.Selector = false, metric, ""
	refusedWith(f, `rpc error: code = NotFound desc = no series of "`+metric+`" has a value; with absent: "0" it would read 0`)
}

// provokedScaledObjects are the causes, each with facts that have it.
var provokedScaledObjects = []struct {
	name  string
	cause Cause
	facts func(*ScaledObjectFacts)
}{
	{"scaledobject", "", func(*ScaledObjectFacts) {}},
	{"scaledobject-at-zero", "", func(f *ScaledObjectFacts) {
		f.Autoscaler.Scale = &Scale{}
		f.Autoscaler.Autoscaler.Conditions = []inspect.AutoscalerCondition{{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Message: "scaling is disabled since the replica count of the target is zero"}}
		f.Autoscaler.Readings[0].Values[0] = value("s0-jobs-waiting-last", 0)
	}},
	{"scaledobject-formula", "", func(f *ScaledObjectFacts) {
		f.Formula, f.Triggers[0].Name = "waiting + 30 * arriving", "waiting"
		f.Triggers = append(f.Triggers, TriggerFacts{Type: "prometheus", Name: "arriving"})
		f.Autoscaler.Autoscaler.Metrics[0].Name = "composite-metric"
	}},
	{"scaledobject-metadata", TriggerMetadata, func(f *ScaledObjectFacts) {
		unmade(f)
		f.Triggers[0].Faults = []string{`target is "ten"; must be a number`, `selectr is unknown; must be one of metric, object, podSelector, selector, target, activation, absent; did you mean "selector"?`}
	}},
	{"scaledobject-address", TriggerAddress, func(f *ScaledObjectFacts) {
		unmade(f)
		f.Triggers[0].AddressFault = "scalerAddress is dns:///sluice.sluice.svc:9095; Service sluice/sluice has the port 8125, 9091"
	}},
	{"scaledobject-authentication", TriggerAuthentication, func(f *ScaledObjectFacts) { unmade(f); f.Triggers[0].AuthenticationMissing = true }},
	{"scaledobject-authority", TriggerCertificate, func(f *ScaledObjectFacts) {
		refusedWith(f, `rpc error: code = Unavailable desc = connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority"`)
	}},
	{"scaledobject-host", TriggerCertificate, func(f *ScaledObjectFacts) {
		f.Triggers[0].Address = "dns:///10-0-0-7.sluice.sluice.svc:9095"
		refusedWith(f, `rpc error: code = Unavailable desc = connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate is valid for sluice-keda.sluice.svc, not 10-0-0-7.sluice.sluice.svc"`)
	}},
	{"scaledobject-client", TriggerCertificate, func(f *ScaledObjectFacts) {
		unmade(f)
		event(f, `rpc error: code = Unavailable desc = connection error: desc = "error reading server preface: remote error: tls: bad certificate"`)
	}},
	{"scaledobject-unreachable", TriggerAddress, func(f *ScaledObjectFacts) {
		refusedWith(f, `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 10.96.0.7:9095: connect: connection refused"`)
	}},
	{"scaledobject-starting", Unavailable, func(f *ScaledObjectFacts) {
		refusedWith(f, "rpc error: code = Unavailable desc = Sluice is starting: the store is restored")
	}},
	{"scaledobject-not-ready", KEDAState, func(f *ScaledObjectFacts) { unmade(f); event(f, "got empty metric spec") }},
	{"scaledobject-absent", NeverPushed, func(f *ScaledObjectFacts) { absentIsError(f, "job_waiting:last") }},
	{"scaledobject-selector", SelectorEmpty, func(f *ScaledObjectFacts) {
		absentIsError(f, "jobs_waiting:last")
		f.Triggers[0].Asks.Selector = "queue=sms"
		refusedWith(f, "rpc error: code = Unknown desc = error when getting metric values metric:s0-jobs-waiting-last encountered error")
		event(f, `rpc error: code = NotFound desc = no series of "jobs_waiting:last" with queue=sms has a value; with absent: "0" it would read 0`)
	}},
	{"scaledobject-elsewhere", OtherNamespace, func(f *ScaledObjectFacts) { absentIsError(f, "invoices") }},
	{"scaledobject-kind", OtherKind, func(f *ScaledObjectFacts) { absentIsError(f, "http_requests") }},
	{"scaledobject-other-error", KEDA, func(f *ScaledObjectFacts) {
		refusedWith(f, "unable to fetch metrics from external metrics API: the adapter is away")
	}},
	{"scaledobject-policy", RightMissing, func(f *ScaledObjectFacts) {
		refusedWith(f, "rpc error: code = Unknown desc = error when getting metric values metric:s0-jobs-waiting-last encountered error")
		event(f, `rpc error: code = PermissionDenied desc = the external metric "jobs_waiting:last" is denied by rules[0] of externalmetricpolicy/guard in the namespace shop`)
	}},
	{"scaledobject-policy-selector", RightMissing, func(f *ScaledObjectFacts) {
		refusedWith(f, `rpc error: code = PermissionDenied desc = the external metric "jobs_waiting:last" must be asked for with a selector within "queue=sms", by rules[1] of clusterexternalmetricpolicy/all`)
	}},
	{"scaledobject-question", TriggerMetadata, func(f *ScaledObjectFacts) {
		f.Triggers[0].Asks.Metric = "jobs_waiting:p95"
		refusedWith(f, "rpc error: code = Unknown desc = error when getting metric values metric:s0-jobs-waiting-p95 encountered error")
		event(f, `rpc error: code = InvalidArgument desc = metric "jobs_waiting" is a gauge and has no stat "p95"; must be one of last, mean, min, max`)
	}},
	{"scaledobject-mended", KEDA, func(f *ScaledObjectFacts) {
		refusedWith(f, "rpc error: code = Unknown desc = error when getting metric values metric:s0-jobs-waiting-last encountered error")
		event(f, "rpc error: code = InvalidArgument desc = metadata of the trigger: metric is missing")
	}},
	{"scaledobject-pods", "", func(f *ScaledObjectFacts) {
		f.Triggers[0].Asks = TriggerQuestion{Metric: "http_requests:rate:10s", Object: "pods", PodSelector: "app=web", Target: 10}
		f.MinReplicas = 1
	}},
	{"scaledobject-own-right", RightMissing, func(f *ScaledObjectFacts) {
		f.Autoscaler.Readings = []Reading{{Asked: true, Code: 403, Fault: `User "jane" cannot list resource "s0-jobs-waiting-last"`}}
	}},
	{"scaledobject-group", NotRegistered, func(f *ScaledObjectFacts) {
		f.External = &API{Exists: true, Available: true, Sluice: true, Service: "sluice/sluice-api:443"}
		f.Autoscaler.APIs[ExternalGroup] = *f.External
		refusedWith(f, `no series of "s0-jobs-waiting-last" has a value`)
	}},
	{"scaledobject-routed", "", func(f *ScaledObjectFacts) {
		f.External = &API{Exists: true, Available: true, Sluice: true, Service: "sluice/sluice-api:443"}
		f.Autoscaler.APIs[ExternalGroup] = *f.External
		f.Autoscaler.Autoscaler.Metrics[0].Provider = "keda"
	}},
	{"scaledobject-provider", Provider, func(f *ScaledObjectFacts) {
		f.External = &API{Exists: true, Available: true, Sluice: true, Service: "sluice/sluice-api:443"}
		f.Autoscaler.APIs[ExternalGroup] = *f.External
		m := &f.Autoscaler.Autoscaler.Metrics[0]
		m.Provider, m.ProviderFault = "keda", "gave no answer within 10s"
		f.Autoscaler.Readings = []Reading{{Asked: true, Code: 503, Fault: `the external metric "s0-jobs-waiting-last" is routed to the provider keda, which gave no answer within 10s`}}
	}},
	{"scaledobject-settings", TriggerSettings, func(f *ScaledObjectFacts) {
		f.Triggers[0].Type, f.Triggers[0].Cached, f.Triggers[0].Asks.AbsentIsZero = "external", true, false
	}},
	{"scaledobject-paused", KEDAState, func(f *ScaledObjectFacts) {
		f.Paused = true
		f.Conditions = append(f.Conditions, inspect.AutoscalerCondition{Type: "Fallback", Status: "True", Message: "At least one trigger is falling back on this scaled object"})
	}},
}

func TestScaledObject(t *testing.T) {
	for _, c := range provokedScaledObjects {
		t.Run(c.name, func(t *testing.T) {
			f := worker()
			c.facts(f)
			r := ScaledObject(f)
			explains(t, c.name, c.cause, r.Findings, r.WriteText)
		})
	}
}

func TestTriggerWithoutAMetric(t *testing.T) {
	if got := (&TriggerQuestion{}).words(); !strings.HasPrefix(got, "no metric external") {
		t.Error(got)
	}
}

func TestServiceOf(t *testing.T) {
	for address, want := range map[string]Service{
		"dns:///sluice-keda.sluice.svc:9095":               {"sluice", "sluice-keda", "9095"},
		"sluice-keda.sluice:9095":                          {"sluice", "sluice-keda", "9095"},
		"dns:///sluice-keda.sluice.svc.cluster.local:9095": {"sluice", "sluice-keda", "9095"},
		"dns:///sluice.example.com:9095":                   {},
		"dns:///sluice-keda:9095":                          {},
		"10.0.0.7:9095":                                    {},
		"unix:///run/sluice.sock":                          {},
		"sluice-keda.sluice.svc":                           {},
	} {
		if got, ok := ServiceOf(address); got != want || ok != (want != Service{}) {
			t.Errorf("%s: %+v, %v; want %+v", address, got, ok, want)
		}
	}
}
