package valuelist

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/apis/external_metrics"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// The groups under which Sluice serves the metrics APIs beside Kubernetes' own, which other products may own. Paths,
// kinds and values are the same.
var (
	OwnCustomV1beta1 = alsoAs(cmv1beta1.SchemeGroupVersion, "custom.metrics.sluice.dev")
	OwnCustomV1beta2 = alsoAs(cmv1beta2.SchemeGroupVersion, "custom.metrics.sluice.dev")
	OwnExternal      = alsoAs(emv1beta1.SchemeGroupVersion, "external.metrics.sluice.dev")
	_                = alsoAs(custom_metrics.SchemeGroupVersion, "custom.metrics.sluice.dev")
	_                = alsoAs(external_metrics.SchemeGroupVersion, "external.metrics.sluice.dev")
)

// alsoAs gives the types of a version another group in the library's scheme.
func alsoAs(version schema.GroupVersion, group string) schema.GroupVersion {
	own := schema.GroupVersion{Group: group, Version: version.Version}
	for kind, of := range cmserver.Scheme.KnownTypes(version) {
		cmserver.Scheme.AddKnownTypeWithName(own.WithKind(kind), reflect.New(of).Interface().(runtime.Object))
	}
	return own
}
