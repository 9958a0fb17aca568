package chart

import (
	"fmt"
	"testing"

	apps "k8s.io/api/apps/v1"
)

// TestCollectorSecretsAreMounted: each file of the export is in the Secret of its value.
func TestCollectorSecretsAreMounted(t *testing.T) {
	const all = "config.export-otlp=https://collector:4318/v1/metrics,exportOTLP.caSecret=ca,exportOTLP.clientSecret=client,exportOTLP.headersSecret=headers"
	objects := strictly(t, mustRender(t, "", all))
	pod, file := only[*apps.StatefulSet](t, objects).Spec.Template.Spec, fileOf(t, objects)
	for setting, secret := range map[string]string{
		"export-otlp-ca-file": "ca", "export-otlp-client-cert-file": "client", "export-otlp-client-key-file": "client", "export-otlp-headers-file": "headers",
	} {
		if path := fmt.Sprint(file[setting]); !mounts(pod, path, secret) {
			t.Errorf("%s is %s, which is not mounted from the Secret %s", setting, path, secret)
		}
	}
	if said, err := render(t, "", "config.export-otlp=http://localhost:4318/v1/metrics,exportOTLP.headersSecret=headers"); err != nil {
		t.Errorf("headers without TLS, as to a Collector in the same pod, are refused: %s", said)
	}
}
