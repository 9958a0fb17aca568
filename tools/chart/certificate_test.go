package chart

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// TestGeneratedCertificate: every APIService trusts the CA that signed the certificate, for the
// name by which the API server calls, https://SERVICE.NAMESPACE.svc.
func TestGeneratedCertificate(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "tls.generated.days=30"))
	secret := only[*core.Secret](t, objects)
	pair, err := tls.X509KeyPair(secret.Data[core.TLSCertKey], secret.Data[core.TLSPrivateKeyKey])
	must(t, err)
	apis := apiServices(objects)
	if len(apis) != 4 {
		t.Fatalf("%d APIServices: want four", len(apis))
	}
	for _, api := range apis {
		if !bytes.Equal(api.Spec.CABundle, secret.Data["ca.crt"]) {
			t.Errorf("%s trusts another CA than the Secret's", api.Name)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(api.Spec.CABundle) {
			t.Fatalf("%s: caBundle holds no PEM", api.Name)
		}
		host := api.Spec.Service.Name + "." + api.Spec.Service.Namespace + ".svc"
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("%s: as %s: %v", api.Name, host, err)
		}
	}
	if days := time.Until(pair.Leaf.NotAfter).Hours() / 24; days < 29 || days > 31 {
		t.Errorf("valid for %.1f days: want tls.generated.days, 30", days)
	}
}

func apiServices(objects []runtime.Object) (all []*registration.APIService) {
	for _, object := range objects {
		if api, ok := object.(*registration.APIService); ok {
			all = append(all, api)
		}
	}
	return all
}
